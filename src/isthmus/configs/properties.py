"""Find the changes by which the configuration of a target topic follows the source's. Pure.

The rules are MirrorMaker 2's, with two additions: values that stay as they are at the target, and values that a lane
depends on, which are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.model.configsettings import ConfigSettings
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.creation import DEMANDED, WITHOUT_MEANING, is_of_tier
from isthmus.topics.preflight import batch_bytes_max

CONFIGS_LOOP: Final = "configs"
_HIDDEN: Final = "(hidden)"
_USUAL: Final = ConfigSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange(Change):
    """One configuration of a target topic. If its problem `is_by_design` it is to stay as it is."""

    topic: TargetTopic


def property_changes(
    source: TopicDescription, target: TopicDescription, settings: ConfigSettings
) -> tuple[PropertyChange, ...]:
    """Return the changes that the target needs, by name of the configuration. After them there are none."""
    comparison = _Comparison(source, target, settings, source.own_configs)
    names = sorted(source.configs.keys() | target.configs.keys())
    return tuple(change for name in names if (change := comparison.change(name)) is not None)


@dataclass(frozen=True, slots=True)
class _Comparison:
    source: TopicDescription
    target: TopicDescription
    settings: ConfigSettings
    own: Mapping[str, str]

    def change(self, name: str) -> PropertyChange | None:
        """Return the change of one configuration, `None` where it is as it should be, or is not followed."""
        ours, theirs = self.target.configs.get(name), self.source.configs.get(name)
        if ours is not None and is_of_tier(name) and self.settings.exclude == _USUAL.exclude:
            return self._explain_tiered(name, ours)
        if self._is_left_alone(name) or (ours is not None and ours.is_read_only):
            return None
        if theirs is not None and theirs.is_sensitive:
            return self._explain_secret(name, ours) if _is_own(theirs) else None
        if ours is None:
            return self._explain_unknown(name)
        if theirs is None or ours.is_sensitive:
            # Brokers of the source that do not know a configuration cannot have reset it.
            return None
        if name in DEMANDED:
            return self._explain_demanded(name, ours)
        if name == "cleanup.policy":
            return self._change_if_different(name, ours, self.source.value(name))
        if name == "max.message.bytes":
            return self._raise_batch_size(ours)
        return self._follow_source(name, ours)

    def _is_left_alone(self, name: str) -> bool:
        source_topic = SourceTopic(self.source.name)
        return name in WITHOUT_MEANING or self.settings.is_excluded(name) or self.settings.keeps(source_topic, name)

    def _follow_source(self, name: str, ours: ConfigEntry) -> PropertyChange | None:
        wanted = self.own.get(name)
        if wanted is not None and name == "min.insync.replicas":
            # A value above the number of replicas would stop every write.
            wanted = str(min(int(wanted), self.target.replication_factor))
        if wanted is None and self.settings.use_defaults_from == "source":
            wanted = self.source.value(name)
        if wanted is not None:
            return self._change_if_different(name, ours, wanted)
        return self._build_change(name, ours.value, None) if _is_own(ours) else None

    def _change_if_different(self, name: str, ours: ConfigEntry, wanted: str | None) -> PropertyChange | None:
        return None if wanted is None or wanted == ours.value else self._build_change(name, ours.value, wanted)

    def _raise_batch_size(self, ours: ConfigEntry) -> PropertyChange | None:
        """Raise it with the source's, never lower it: larger batches from before may still have to be copied."""
        wanted, present = batch_bytes_max(self.source), batch_bytes_max(self.target)
        if wanted > present:
            return self._build_change("max.message.bytes", ours.value, str(wanted))
        if wanted == present or not _is_own(ours):
            return None
        problem = Problem(
            f"the target goes on taking batches of {present:,} bytes: the source may still hold some that are larger "
            f"than the {wanted:,} it takes now",
            "Lower max.message.bytes on the target topic yourself when they are gone.",
        )
        return self._build_change("max.message.bytes", ours.value, str(wanted), problem, is_by_design=True)

    def _explain_demanded(self, name: str, ours: ConfigEntry) -> PropertyChange | None:
        wanted = self.own.get(name)
        if wanted is None or wanted == ours.value:
            return None
        problem = Problem(
            f"the target topic stays at {name}={ours.value}: records come with the codecs and the timestamps they have",
            "Nothing needs to be done. To silence this, add it to configs.exclude of the link.",
        )
        return self._build_change(name, ours.value, wanted, problem, is_by_design=True)

    def _explain_tiered(self, name: str, ours: ConfigEntry) -> PropertyChange | None:
        """Explain it unless the link's settings decide about it, as MirrorMaker 2 would set it."""
        wanted = self.own.get(name)
        if wanted is None or wanted == ours.value or self.settings.keeps(SourceTopic(self.source.name), name):
            return None
        problem = Problem(
            f"the target topic stays at {name}={ours.value}: a remote tier is each cluster's own business",
            "Nothing needs to be done. To have it set, or to silence this, write configs.exclude of the link.",
        )
        return self._build_change(name, ours.value, wanted, problem, is_by_design=True)

    def _explain_unknown(self, name: str) -> PropertyChange | None:
        wanted = self.own.get(name)
        if wanted is None:
            return None
        problem = Problem(
            f"the target's brokers do not know {name}: left out",
            "Set what matters on the target topic by its brokers' own names; configs.exclude leaves it out.",
        )
        return self._build_change(name, None, wanted, problem)

    def _explain_secret(self, name: str, ours: ConfigEntry | None) -> PropertyChange:
        problem = Problem(
            f"the source keeps the value of {name} to itself",
            f"Set {name} on the target topic yourself, and add it to configs.exclude of the link.",
        )
        return self._build_change(name, None if ours is None else _HIDDEN, _HIDDEN, problem, is_by_design=True)

    def _build_change(
        self,
        name: str,
        before: str | None,
        after: str | None,
        problem: Problem | None = None,
        *,
        is_by_design: bool = False,
    ) -> PropertyChange:
        return PropertyChange(
            loop=CONFIGS_LOOP,
            subject=f"topic {self.target.name}",
            setting=name,
            before=before,
            after=after,
            problem=problem,
            topic=TargetTopic(self.target.name),
            is_by_design=is_by_design,
        )


def _is_own(entry: ConfigEntry) -> bool:
    return entry.source is ConfigSource.DYNAMIC_TOPIC
