"""What a target topic is created with, so that it takes the source's batches as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.cluster.changes import NewTopic
from isthmus.control.topics.preflight import LONG_MAX, PartitionDecision, batch_bytes_max
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.topic import Configs, TopicDescription
from isthmus.model.wording import counted

_UNLIMITED: Final = "-1"
_PREFIX_NOTED: Final = 100_000_000
_PREFIX_OFFSETS_PER_S: Final = 9_000_000
FILLING: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": _UNLIMITED,
    "retention.bytes": _UNLIMITED,
}
"""While a prefix is filled and deleted: brokers refuse DeleteRecords without the delete policy."""

DEMANDED: Final = frozenset(
    {
        "compression.type",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)
"""Batches pass with the codec they have, and with the timestamps they have, whatever the source says."""
WITHOUT_MEANING: Final = frozenset({"compression.gzip.level", "compression.lz4.level", "compression.zstd.level"})
"""Of no use to brokers that compress nothing."""
_NEVER_COPIED: Final = (
    DEMANDED
    | WITHOUT_MEANING
    | {
        # Which replicas are throttled is the business of each cluster.
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        # Losing records is a decision of the cluster that loses them.
        "unclean.leader.election.enable",
    }
)
_TIER_PREFIXES: Final = ("remote.", "local.retention.")
_TAKEN_OVER_ONCE: Final = "min.insync.replicas"
"""What acknowledgements mean at the target rests on it, so it is copied although it may differ from then on."""
_TIMESTAMP_LIMITS: Final = (
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A topic to create, and what could not be taken over from the source."""

    topic: NewTopic
    notes: tuple[Problem, ...] = ()


def creation(
    source: TopicDescription,
    *,
    name: TargetTopic,
    defaults: Configs,
    brokers: int,
    has_prefix: bool,
    settings: ConfigSettings | None = None,
) -> Creation:
    """The target topic of this name for a source topic.

    `defaults` is the configuration the target would give a topic: it also tells which
    configurations its brokers know. `brokers` is their number. With `has_prefix` the topic starts
    with a policy that lets the prefix be deleted; `settled_policy` is what it gets afterwards. What the `settings` of
    the link exclude, or have the target keep, is left to the target's brokers.
    """
    settings = settings or ConfigSettings()
    replication_factor = min(source.replication_factor, brokers)
    left_out = {own for own in source.own_configs if not _is_copied(source, own, settings)}
    configs = dict(_copied(source, defaults, replication_factor, left_out))
    configs.update(_demanded(source, defaults))
    if has_prefix and "delete" not in source.cleanup_policy.split(","):
        configs.update(FILLING)
    topic = NewTopic(
        name=name,
        partition_count=source.partition_count,
        replication_factor=replication_factor,
        configs=dict(sorted(configs.items())),
    )
    return Creation(topic=topic, notes=tuple(_notes(source, defaults, replication_factor, left_out)))


def settled_policy(
    source: TopicDescription,
    target: TopicDescription,
    source_ranges: Mapping[int, LogRange],
    target_ranges: Mapping[int, LogRange],
    settings: ConfigSettings | None = None,
) -> dict[str, str | None]:
    """What to set once a target that was created for filling is past the prefix; else nothing.

    `None` stands for the broker's default, which also counts for what the `settings` of the link leave to the target.
    """
    settings = settings or ConfigSettings()
    if not is_filling(source, target):
        return {}
    if not all(
        _is_past_prefix(source_ranges.get(partition), target_ranges.get(partition))
        for partition in range(source.partition_count)
    ):
        return {}
    own = {name: value for name, value in source.own_configs.items() if _is_copied(source, name, settings)}
    wanted = {name: own.get(name) for name in FILLING} | {"cleanup.policy": source.cleanup_policy}
    return {name: value for name, value in wanted.items() if value != FILLING[name]}


def is_filling(source: TopicDescription, target: TopicDescription) -> bool:
    """Whether a target still has the configuration it was created with for filling."""
    own = target.own_configs
    return source.cleanup_policy != FILLING["cleanup.policy"] and all(
        own.get(name) == value for name, value in FILLING.items()
    )


def _is_past_prefix(source: LogRange | None, target: LogRange | None) -> bool:
    if source is None or target is None:
        return False
    if source.start == 0:
        return True
    # The fillers are deleted, and a real record follows them if there is any.
    return target.start > 0 and (target.end > target.start or target.end >= source.stable_end)


def is_of_tier(name: str) -> bool:
    """Whether a configuration is about a remote tier, which is each cluster's own."""
    return name.startswith(_TIER_PREFIXES)


def _is_copied(source: TopicDescription, name: str, settings: ConfigSettings) -> bool:
    if name in _NEVER_COPIED or is_of_tier(name):
        return False
    if settings.keeps(SourceTopic(source.name), name):
        return False
    return name == _TAKEN_OVER_ONCE or not settings.is_excluded(name)


def _copied(
    source: TopicDescription, defaults: Configs, replication_factor: int, left_out: Collection[str]
) -> Iterator[tuple[str, str]]:
    for name, value in source.own_configs.items():
        if name in left_out or name not in defaults:
            continue
        if name == _TAKEN_OVER_ONCE:
            yield name, str(min(int(value), replication_factor))
        else:
            yield name, value


def _demanded(source: TopicDescription, defaults: Configs) -> Iterator[tuple[str, str]]:
    """What has to differ from the target's defaults for the source's batches to fit."""
    demanded = {
        "cleanup.policy": source.cleanup_policy,
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    } | dict.fromkeys(_TIMESTAMP_LIMITS, str(LONG_MAX))
    for name, value in demanded.items():
        entry = defaults.get(name)
        if entry is not None and entry.value != value:
            yield name, value
    entry = defaults.get("max.message.bytes")
    theirs = batch_bytes_max(source)
    if entry is not None and int(entry.value or 0) < theirs:
        yield "max.message.bytes", str(theirs)


def _notes(
    source: TopicDescription, defaults: Configs, replication_factor: int, left_out: Collection[str]
) -> Iterator[Problem]:
    if replication_factor < source.replication_factor:
        yield Problem(
            f"{counted(source.replication_factor, 'replica')} at the source, {replication_factor} at the "
            "target: it has no more brokers",
            "Add brokers to the target cluster, then reassign the topic's partitions.",
        )
    unknown = [name for name in source.own_configs if name not in left_out and name not in defaults]
    if unknown:
        yield Problem(
            f"the target's brokers do not know {', '.join(sorted(unknown))}: left out",
            "Set what matters on the target topic by its brokers' own names.",
        )


def prefix_notes(partitions: tuple[PartitionDecision, ...]) -> Iterator[Problem]:
    """What will be missing at the target, and how long filling takes where it takes long."""
    for p in partitions:
        if p.gap is not None:
            yield Problem(
                f"partition {p.partition}: offsets [{p.gap.offset_begin}, {p.gap.offset_end}) will be missing at the "
                "target: the source deleted them before they were copied",
                "The link goes on after gaps (on_data_gap: continue). A longer retention at the source avoids them.",
            )
    offsets = sum(p.prefix for p in partitions if p.refusal is None and p.gap is None)
    if offsets > _PREFIX_NOTED:
        minutes = offsets / _PREFIX_OFFSETS_PER_S / 60
        yield Problem(
            f"{counted(offsets, 'offset')} before the first records are filled and deleted first",
            f"This takes about {minutes:,.0f} min and up to {offsets * 6 // 10_000_000:,} MB of "
            "disk per replica until it is done.",
        )
