"""Converts a flow into a link: topics, names, offsets and groups, and a notice for every other setting."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.interop.clients.clients import flow_equivalent, is_client_setting, is_known_client_setting
from isthmus.interop.clients.flowclients import flow_properties
from isthmus.interop.clients.references import escape_text
from isthmus.interop.deployment import Flow, Impact, MirrorConnector, Setting, Settings, ambiguity
from isthmus.interop.equivalents import (
    ALIASES,
    EQUIVALENTS,
    PATH_OF_CLASSES,
    Equivalent,
    Fate,
    records,
    side,
    truth,
)
from isthmus.interop.gathering import Gathering
from isthmus.interop.names import NameList, group_names, merge_patterns, topic_names
from isthmus.interop.transforms.chain import TranslatedChain, translate_chain
from isthmus.interop.transforms.routing import TargetNames, route
from isthmus.interop.transforms.steps import chain_steps, is_of_chain

KeyPath = tuple[str, ...]


class OffsetsChoice(enum.StrEnum):
    """The offsets that imported links give records at the target (`links[].topics.offsets`)."""

    AUTO = "auto"
    MAPPED = "mapped"
    SAME = "same"


TOPICS: Final = ".*"
TOPICS_EXCLUDE: Final = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS: Final = ".*"
GROUPS_EXCLUDE: Final = "console-consumer-.*, connect-.*, __.*"
"""The default lists of MirrorMaker 2."""
_RESETS: Final = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
RESETS_OF_CLUSTER: Final = ("consumer.auto.offset.reset", "auto.offset.reset")
_OFFSET_SYNCS: Final = ("emit.offset-syncs.enabled", "offset-syncs.topic.location")
_PLAIN_ALIAS: Final = (
    "Give the cluster an alias of its own, without the separator: then programs that read these topics find them under "
    "that alias."
)
_WRITE_SYNCS: Final = "If programs read them, set mm2.offset_syncs: source, where MirrorMaker 2 has them, or target."
_PLACES: Final = {
    "topics": "topics.include",
    "topics.exclude": "topics.exclude",
    "groups": "groups.include",
    "groups.exclude": "groups.exclude",
    "config.properties.exclude": "configs.exclude",
}
_OFFSETS: Final = {
    "auto": (
        "Records that MirrorMaker 2 copied do not have the offsets of the source. auto: topics that are new at the "
        "target "
        "get them; records for a topic that holds records already come behind these, with an exact map."
    ),
    "mapped": "Records come behind whatever a topic of the target holds, with an exact map of which went where.",
    "same": "Every record gets the offset it has at the source; a topic that cannot have that is refused.",
}


@dataclass(slots=True)
class LinkDraft:
    """The section of a link during its conversion; comments are by the keys of the line after them."""

    section: dict[str, object]
    comments: dict[KeyPath, str] = field(default_factory=dict)

    def put(self, path: str, value: object) -> None:
        """Write a value under a dotted path."""
        *above, last = path.split(".")
        section = self.section
        for key in above:
            inner = section.setdefault(key, {})
            section = inner if isinstance(inner, dict) else {}
        section[last] = value


def link_draft(
    flow: Flow, name: str, clusters: Mapping[str, Settings], offsets: OffsetsChoice, gathering: Gathering
) -> LinkDraft:
    """Return the link that does the same as a flow. `clusters` are the settings of all of them, by alias.

    :raises ConfigError: A value is none that MirrorMaker 2 could use.
    """
    return _Translation(flow, name, clusters, offsets, gathering).draft()


class _Translation:
    def __init__(
        self, flow: Flow, name: str, clusters: Mapping[str, Settings], offsets: OffsetsChoice, gathering: Gathering
    ) -> None:
        self._flow = flow
        self._clusters = clusters
        self._offsets = offsets
        self._gathering = gathering
        self._settings = self._rename_aliases(flow.settings)
        self._made = LinkDraft({"name": name, "source": flow.source, "target": flow.target})
        self._chain = TranslatedChain()

    def draft(self) -> LinkDraft:
        self._topics()
        self._groups()
        self._beside()
        treated = self._properties() | self._chain.treated
        for key, setting in self._settings.items():
            if key not in treated and not is_of_chain(key):
                self._treat(key, setting)
        for key, equivalent in EQUIVALENTS.items():
            if equivalent.default and key not in self._settings:
                self._treat_default(key, equivalent)
        return self._made

    def _rename_aliases(self, settings: Settings) -> dict[str, Setting]:
        """Replace old names of settings by new ones."""
        found = {key: setting for key, setting in settings.items() if key not in ALIASES}
        for old, new in ALIASES.items():
            if old not in settings:
                continue
            if new in found:
                why = f"it is the old name of {found[new].written}, which is written as well and counts"
                self._gathering.tell(Impact.CHANGED, settings[old], why, f"Add the missing values to {new}.")
            else:
                found[new] = settings[old]
        return found

    def _value(self, key: str, default: str = "") -> str:
        setting = self._settings.get(key)
        return default if setting is None else self._gathering.require_known(setting).strip()

    def _truth(self, key: str, default: bool) -> bool:
        return bool(self._read(key, truth)) if key in self._settings else default

    def _read(self, key: str, read: Callable[[str], object]) -> object:
        setting = self._settings[key]
        try:
            return read(self._gathering.require_known(setting))
        except ValueError as error:
            hint = "Correct it, and import again."
            raise self._gathering.refusal(setting, str(error), hint) from None

    def _topics(self) -> None:
        include = topic_names(self._value("topics", TOPICS))
        exclude = topic_names(self._value("topics.exclude", TOPICS_EXCLUDE))
        naming, why_held = self._naming()
        why_held = why_held or self._chain.why_held
        why_held = why_held or self._filter("topic.filter.class", "DefaultTopicFilter")
        why_held = self._report_failed("topics.exclude", exclude) or why_held
        self._tell_failed("topics", include)
        patterns = self._patterns_or_none(("topics", "include"), include, why_held)
        topics: dict[str, object] = {"include": patterns}
        excluded = merge_patterns(exclude.patterns, self._internal())
        topics["exclude"] = _escape_all(excluded)
        if "topics.exclude" not in self._settings:
            self._made.comments["topics", "exclude"] = "The default exclusions of MirrorMaker 2, and its own topics."
            self._gathering.tell(
                Impact.CHANGED,
                self._unwritten("topics.exclude"),
                "it is not written, so the default of Kafka 4.0 is taken; before, that had .*[\\-\\.]internal as well",
                "If yours is older, add /.*[-.]internal/ to topics.exclude.",
            )
        if naming is not None:
            topics["naming"] = naming
        topics["offsets"] = str(self._offsets)
        self._made.comments["topics", "offsets"] = _OFFSETS[self._offsets]
        if start := self._start():
            topics["start"] = start
        self._made.section["topics"] = topics
        self._transform()

    def _transform(self) -> None:
        """Write what the transforms of the flow make of records."""
        transforms = self._chain.transforms
        if not transforms:
            return
        is_single = len(transforms) == 1 and "topics" not in transforms[0]
        self._made.section["transform"] = transforms[0] if is_single else transforms
        if self._offsets is OffsetsChoice.SAME:
            why = "records that are changed, or left out, cannot keep the offsets of the source"
            todo = "Import with --offsets auto; or take transform out of the link."
            self._gathering.tell(Impact.NEEDED, self._settings["transforms"], why, todo)

    def _internal(self) -> tuple[str, ...]:
        """Return the topics that MirrorMaker 2 never copies, whatever the lists are; those with `__` no link copies."""
        is_separated = self._truth("replication.policy.internal.topic.separator.enabled", True)
        separator = re.escape(self._separator() if is_separated else ".")
        return f"/mm2.*{separator}internal/", f"/.*{separator}checkpoints{separator}internal/"

    def _separator(self) -> str:
        return self._value("replication.policy.separator", ".")

    def _naming(self) -> tuple[object | None, str]:
        """Return the naming of topics, or why it is unknown."""
        names, why = self._names()
        steps = list(chain_steps(self._settings))
        routing = route(names, steps, self._gathering)
        self._chain = translate_chain(self._settings, steps, routing, self._gathering)
        made = routing.names
        if made is None:
            return None, why or routing.why
        if made.end:
            return _template(made), ""
        if made.begin != f"{self._flow.source}{self._separator()}" or ambiguity(self._flow, self._separator()):
            # Our mm2 refuses such aliases, as names do not show where they end; a prefix gives the same names.
            return {"target_prefix": escape_text(made.begin)} if made.begin else "identity", ""
        return "mm2" if self._separator() == "." else {"mm2": {"separator": escape_text(self._separator())}}, ""

    def _names(self) -> tuple[TargetNames | None, str]:
        """Return the names that the replication policy makes, or why they are unknown."""
        policy = self._value("replication.policy.class", f"{PATH_OF_CLASSES}DefaultReplicationPolicy")
        name = policy.rpartition(".")[2]
        if name == "IdentityReplicationPolicy":
            return TargetNames(""), ""
        if policy in (name, f"{PATH_OF_CLASSES}{name}") and name == "DefaultReplicationPolicy":
            return TargetNames(f"{self._flow.source_alias}{self._separator()}"), ""
        why = f"Isthmus does not know how {name} names topics"
        todo = "Set topics.naming: prefixes, a template, or a class of your own in Python (docs/naming.md)."
        self._gathering.tell(Impact.NEEDED, self._settings["replication.policy.class"], why, todo, value=policy)
        return None, why

    def _start(self) -> str:
        """Return where copying begins, "" for the beginning."""
        given = [self._settings[key] for key in _RESETS if key in self._settings]
        source = self._clusters[self._flow.source]
        given += [source[key] for key in RESETS_OF_CLUSTER if key in source]
        if not given or self._gathering.require_known(given[0]).strip().lower() == "earliest":
            return ""
        if (
            self._gathering.require_known(given[0]).strip().lower() == "latest"
            and self._offsets is not OffsetsChoice.SAME
        ):
            self._made.comments["topics", "start"] = "Records from the first run on; such topics are mapped."
            return "latest"
        why = "with the offsets of the source copying begins at its beginning"
        if self._offsets is not OffsetsChoice.SAME:
            why = "Isthmus begins at earliest or latest only"
        self._gathering.tell(Impact.CHANGED, given[0], why, "Set topics.start, which takes a point in time as well.")
        return ""

    def _properties(self) -> frozenset[str]:
        """Write the client settings of the flow; return the keys that are handled."""
        properties, treated = flow_properties(self._flow, self._clusters, self._gathering)
        if properties:
            self._made.section["properties"] = properties
        return treated

    def _groups(self) -> None:
        commits = self._truth("sync.group.offsets.enabled", False)
        writes_checkpoints = self._truth("emit.checkpoints.enabled", True) and not self._ambiguity()[0]
        if not self._has(MirrorConnector.CHECKPOINT) or not (commits or writes_checkpoints):
            self._made.comments["groups",] = (
                "MirrorMaker 2 wrote no positions of consumer groups: groups.include carries them."
            )
            for key in ("groups", "groups.exclude", "group.filter.class"):
                if key in self._settings:
                    why = "sync.group.offsets.enabled is not true, so MirrorMaker 2 wrote no positions of groups"
                    self._gathering.tell(Impact.UNNEEDED, self._settings[key], why)
            return
        include = group_names(self._value("groups", GROUPS))
        exclude = group_names(self._value("groups.exclude", GROUPS_EXCLUDE))
        why_held = self._filter("group.filter.class", "DefaultGroupFilter")
        why_held = self._report_failed("groups.exclude", exclude) or why_held
        self._tell_failed("groups", include)
        self._made.section["groups"] = {
            "include": self._patterns_or_none(("groups", "include"), include, why_held),
            "exclude": _escape_all(exclude.patterns),
            "way": "identity" if self._offsets is OffsetsChoice.SAME else "mapped",
        }
        if not commits:
            self._made.put("groups.commit", False)
            self._made.comments["groups", "commit"] = (
                "MirrorMaker 2 wrote checkpoints, and no positions of consumer groups: true carries them."
            )

    def _beside(self) -> None:
        """Write the settings for the configurations, groups and other things beside the data."""
        if "config.properties.exclude" in self._settings:
            exclude = topic_names(self._value("config.properties.exclude"))
            self._tell_failed("config.properties.exclude", exclude)
            self._made.put("configs.exclude", _escape_all(exclude.patterns))
        if self._truth("sync.topic.acls.enabled", False):
            self._made.put("access.policy", "read-only")
        elif "sync.topic.acls.enabled" not in self._settings and self._has(MirrorConnector.SOURCE):
            why = "MirrorMaker 2 carries access rules by default, where both clusters have an authorizer"
            todo = "To have them carried set access.policy: read-only (docs/access.md)."
            self._gathering.tell(Impact.LOST, self._unwritten("sync.topic.acls.enabled"), why, todo, value="true")
        self._internal_topics()

    def _internal_topics(self) -> None:
        """Write the settings for the topics that MirrorMaker 2 writes for its own tools."""
        writes = {
            "heartbeats": MirrorConnector.HEARTBEAT,
            "checkpoints": MirrorConnector.CHECKPOINT,
        }
        self._offset_syncs()
        for topic, connector in writes.items():
            key = f"emit.{topic}.enabled"
            if not self._truth(key, True) or not self._has(connector):
                continue
            why, todo = self._ambiguity()
            if why:
                self._gathering.tell(Impact.LOST, self._unwritten(key), why, todo, value="true")
            else:
                self._made.put(f"mm2.{topic}", True)

    def _ambiguity(self) -> tuple[str, str]:
        """Return why there can be no topics of MirrorMaker 2, if there cannot, and the remedy."""
        why = ambiguity(self._flow, self._separator())
        return (f"{why}, so that the names of such topics would be ambiguous", _PLAIN_ALIAS) if why else ("", "")

    def _offset_syncs(self) -> None:
        """Write pairs of offsets, if the file asks for them; MirrorMaker 2 has them by default, for its own
        checkpoints.
        """
        keys = [key for key in _OFFSET_SYNCS if key in self._settings]
        if not self._truth("emit.offset-syncs.enabled", True) or not self._has(MirrorConnector.SOURCE):
            return
        why, todo = self._ambiguity()
        if not keys:
            why = "MirrorMaker 2 writes pairs of offsets by default, for checkpoints; those of Isthmus need none"
            key = self._settings.get("offset.lag.max", self._unwritten(_OFFSET_SYNCS[0]))
            self._gathering.tell(Impact.UNNEEDED, key, why, _WRITE_SYNCS)
        elif why:
            self._gathering.tell(Impact.LOST, self._settings[keys[0]], why, todo)
        else:
            self._made.put("mm2.offset_syncs", self._place() if _OFFSET_SYNCS[1] in self._settings else "source")
            if "offset.lag.max" in self._settings:
                self._made.put("mm2.offset_lag_max", self._read("offset.lag.max", records))

    def _place(self) -> str:
        return str(self._read(_OFFSET_SYNCS[1], side))

    def _patterns_or_none(self, path: KeyPath, include: NameList, why: str) -> list[str]:
        """Return the patterns, or none with a reason: better copy nothing than topics that MirrorMaker 2 leaves out."""
        if not why:
            return _escape_all(include.patterns)
        self._made.comments[path] = f"To be filled in, probably with {', '.join(include.patterns) or 'nothing'}: {why}."
        return []

    def _filter(self, key: str, known: str) -> str:
        given = self._value(key)
        if not given or given in (known, f"{PATH_OF_CLASSES}{known}"):
            return ""
        why = f"Isthmus runs no filter of Java, so only {given.rpartition('.')[2]} knows what it lets pass"
        todo = "Write patterns for the names that it lets pass (include, exclude)."
        self._gathering.tell(Impact.NEEDED, self._settings[key], why, todo, value=given)
        return why

    def _report_failed(self, key: str, found: NameList) -> str:
        self._tell_failed(key, found)
        return "an exclusion could not be translated" if found.failed else ""

    def _tell_failed(self, key: str, found: NameList) -> None:
        for text, reason in found.failed:
            why = f"it is no pattern of Isthmus: {reason}"
            todo = f"Write it as a name, a prefix* or a /regex/ of Python, in {_PLACES[key]}."
            self._gathering.tell(Impact.NEEDED, self._settings[key], why, todo, value=text)

    def _unwritten(self, key: str) -> str:
        """Return the name of a setting that this flow lacks: with the flow if another one has it."""
        is_elsewhere = any(key in flow.settings for flow in self._gathering.deployment.flows)
        return f"{self._flow.name}.{key}" if is_elsewhere and key not in self._settings else key

    def _has(self, connector: MirrorConnector) -> bool:
        return connector in self._flow.connectors

    def _treat(self, key: str, setting: Setting) -> None:
        equivalent = EQUIVALENTS.get("enabled") if key in _RESETS else flow_equivalent(key)
        if equivalent is None:
            why = "neither MirrorMaker 2 nor Isthmus knows it"
            todo = "Correct it if it is misspelt, and import again; else leave it out."
            if is_client_setting(key):
                why = "how a cluster is reached is a setting of the cluster; of a flow it has no effect"
                todo = "Write it for the cluster if that is meant, and import again; else leave it out."
            self._gathering.tell(Impact.UNKNOWN, setting, why, todo)
        elif equivalent.fate is Fate.WRITTEN:
            self._made.put(equivalent.path, self._read(key, equivalent.read))
        elif equivalent.fate is Fate.REPORTED and setting.value.strip().lower() not in {
            "",
            *_lower(equivalent.off),
        }:
            if "true" in equivalent.off | {equivalent.default}:
                self._truth(key, True)
            value = setting.value if is_known_client_setting(key) else ""
            self._gathering.tell(equivalent.impact, setting, equivalent.why, equivalent.todo, value=value)

    def _treat_default(self, key: str, equivalent: Equivalent) -> None:
        if equivalent.connector is not None and not self._has(equivalent.connector):
            return
        if equivalent.fate is Fate.WRITTEN:
            self._made.put(equivalent.path, equivalent.read(equivalent.default))
        else:
            why = f"MirrorMaker 2 does it by default. {equivalent.why}"
            written = self._unwritten(key)
            self._gathering.tell(equivalent.impact, written, why, equivalent.todo, value=equivalent.default)


def _template(names: TargetNames) -> dict[str, object]:
    """Return a naming by a template."""
    return {"template": {"source": "{topic}", "target": escape_text(f"{names.begin}{{topic}}{names.end}")}}


def _escape_all(patterns: Iterable[str]) -> list[str]:
    return [escape_text(pattern) for pattern in patterns]


def _lower(values: frozenset[str]) -> set[str]:
    return {value.lower() for value in values}


def link_names(flows: Mapping[tuple[str, str], Flow]) -> dict[tuple[str, str], str]:
    """Return a name for the link of each flow, by its source and target; equal ones get numbers."""
    names: dict[tuple[str, str], str] = {}
    for source, target in flows:
        name = f"{source}-{target}"
        number = 1
        while name in names.values() or len(name) > 100:
            number += 1
            name = f"{source[:40]}-{target[:40]}-{number}"
        names[source, target] = name
    return names
