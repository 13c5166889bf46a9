"""The settings with which a target topic is created, so that it takes the source's batches as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.kafka.admin.changes import NewTopic
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import Configs, Settings, TopicDescription
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.wording import format_count
from isthmus.topics.preflight import LONG_MAX, PartitionDecision, TopicPair, batch_bytes_max, is_compacted

_UNLIMITED: Final = "-1"
_POLICY: Final = "cleanup.policy"
_PREFIX_NOTED: Final = 100_000_000
_PREFIX_OFFSETS_PER_S: Final = 9_000_000
FILLING: Final = {"cleanup.policy": "delete", "retention.ms": _UNLIMITED, "retention.bytes": _UNLIMITED}
"""The settings while a target of a compacted topic is filled. Brokers refuse DeleteRecords, as a prefix needs it,
without the delete policy, and with the compact policy records without keys, which the source may hold from earlier.
"""
FILLING_COMPACTED: Final = FILLING | {"cleanup.policy": "compact,delete"}
"""The same for earlier releases, and where the policy is left to the target, or is neither of the two."""

DEMANDED: Final = frozenset(
    {
        "compression.type",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)
"""Batches keep their codec and their timestamps, whatever the source's settings are."""
WITHOUT_MEANING: Final = frozenset(
    {"compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "message.format.version"}
)
"""Of no use to brokers that compress nothing, and take all batches in the newest format."""
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
"""The guarantee of acknowledgements at the target rests on it, so it is copied although it may differ later."""
_LETTER_BYTES_MAX: Final = 64 << 20
"""A record of a compressed batch may be far larger than the batch was."""
_TIMESTAMP_LIMITS: Final = (
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A topic to create, and notes on what could not be taken over from the source."""

    topic: NewTopic
    notes: tuple[Problem, ...] = ()


NEEDED: Final = frozenset({"cleanup.policy", "compression.type", "message.timestamp.type"})
"""Without these a target would not keep its records, where they are set at all. All others are optional."""


def creation(
    source: TopicDescription,
    *,
    name: TargetTopic,
    defaults: Configs,
    brokers: int,
    has_prefix: bool,
    has_records: bool = False,
    settings: ConfigSettings | None = None,
    replication_factor: int | None = None,
) -> Creation:
    """Return the target topic of this name for a source topic.

    `defaults` is the configuration the target would give a topic: it also shows which
    configurations its brokers know. `brokers` is their number. With `has_prefix` the topic starts
    with a policy that lets the prefix be deleted, and a compacted one that `has_records` with one that takes them even
    if they have no keys; `final_policy` is what it gets afterwards. Settings that the link's `settings` exclude, or
    have the target keep, are left to the target's brokers, unless the records need them there.
    Without a `replication_factor` of the link it is the source's, as far as there are brokers.
    """
    settings = settings or ConfigSettings()
    is_given = replication_factor is not None
    replication_factor = replicas(source, brokers=brokers, given=replication_factor)
    left_out = {own for own in source.own_configs if not _is_copied(source, own, settings)}
    configs = dict(_copied_settings(source, defaults, replication_factor, left_out))
    configs.update(_demanded_settings(source, defaults, settings))
    is_ours = is_compacted(source) and not is_policy_kept(source, settings)
    if is_ours and (has_prefix or has_records):
        configs.update(FILLING)
    elif has_prefix and "delete" not in source.cleanup_policy.split(","):
        configs.update(FILLING_COMPACTED)
    topic = NewTopic(
        name=name,
        partition_count=source.partition_count,
        replication_factor=replication_factor,
        configs=dict(sorted(configs.items())),
    )
    notes = _notes(source, defaults, source.replication_factor if is_given else replication_factor, left_out)
    return Creation(topic=topic, notes=tuple(notes))


def replicas(source: TopicDescription, *, brokers: int, given: int | None) -> int:
    """Return how many replicas a target topic gets: by the link, or as many as the source has and the target can."""
    return min(source.replication_factor, brokers) if given is None else given


def letter_creations(source: TopicDescription, name: str, *, replication_factor: int) -> tuple[NewTopic, ...]:
    """Return how to create the topic for dead letters of a topic: the first that the brokers accept, as they do not
    know each setting, and may bound the size of batches. It keeps everything, and takes any record that the source may
    hold, unless brokers forbid that.
    """
    settings = {
        **FILLING,
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    }
    durable = source.own_configs.get(_TAKEN_OVER_ONCE)
    if durable is not None and int(durable) <= replication_factor:
        settings[_TAKEN_OVER_ONCE] = durable
    # Before Kafka 3.6 one limit is for both directions of time.
    *since_3_6, before = _TIMESTAMP_LIMITS
    own = batch_bytes_max(source)
    sizes = [{"max.message.bytes": str(size)} for size in dict.fromkeys((max(_LETTER_BYTES_MAX, own), own))]
    return tuple(
        NewTopic(
            name=name,
            partition_count=source.partition_count,
            replication_factor=replication_factor,
            configs=dict(sorted({**settings, **size, **dict.fromkeys(limits, str(LONG_MAX))}.items())),
        )
        for size in (*sizes, {})
        for limits in (since_3_6, (before,), ())
    )


def own_settings(source: TopicDescription, settings: ConfigSettings) -> dict[str, str]:
    """Return the source topic's own settings that are copied."""
    return {name: value for name, value in source.own_configs.items() if _is_copied(source, name, settings)}


def final_policy(
    source: TopicDescription, there: Mapping[str, str], settings: ConfigSettings | None = None, before: Settings = ()
) -> dict[str, str | None]:
    """Return what a target gets when it is filled, if `there`, its own configuration, is that of filling; nothing for
    all others. `None` stands for the broker's default.

    `before` is the same as the link recorded it: then it was the link that began to fill it. Settings that `settings`
    leave to the target are as they were then.
    """
    settings, known = settings or ConfigSettings(), dict(before)
    if not _is_begun(source, there, settings, is_ours=bool(known)):
        return {}
    own, topic = own_settings(source, settings), SourceTopic(source.name)

    def is_left(name: str) -> bool:
        return settings.is_excluded(name) or settings.keeps(topic, name)

    wanted = {name: known.get(name) if is_left(name) else own.get(name) for name in FILLING}
    if not (is_left(_POLICY) and _POLICY in known):
        wanted[_POLICY] = source.cleanup_policy
    return {name: value for name, value in wanted.items() if value != there[name]}


def is_filled(pair: TopicPair, copied_ends: Mapping[int, int] | None = None) -> bool:
    """Whether a target that was created for filling is past its prefix, and past `pair.filled_ends` (by default past
    the source's ends). For mapped partitions `copied_ends` show how far they are, in offsets of the source.
    """
    for partition in range(pair.source.partition_count):
        log, there = pair.source_ranges.get(partition), pair.target_ranges.get(partition)
        if log is None or there is None or (copied_ends is None and not _is_past_prefix(log, there)):
            return False
        end = pair.filled_ends.get(partition, log.end) if is_compacted(pair.source) else 0
        # Records that the source has deleted do not come any more.
        if max(there.end if copied_ends is None else copied_ends.get(partition, -1), log.start) < end:
            return False
    return True


def _is_begun(source: TopicDescription, there: Mapping[str, str], settings: ConfigSettings, *, is_ours: bool) -> bool:
    """Whether a target still has the configuration it was created with for filling."""
    if not is_for_filling(there):
        return False
    if is_ours:
        return True
    if there[_POLICY] == FILLING[_POLICY]:
        return is_compacted(source) and not is_policy_kept(source, settings)
    return "delete" not in source.cleanup_policy.split(",")


def is_for_filling(own: Mapping[str, str]) -> bool:
    """Whether these settings of a topic's own are those that targets are created with for filling."""
    if any(own.get(name) != FILLING[name] for name in ("retention.ms", "retention.bytes")):
        return False
    return own.get(_POLICY) in (FILLING[_POLICY], FILLING_COMPACTED[_POLICY])


def is_policy_kept(source: TopicDescription, settings: ConfigSettings) -> bool:
    """Whether the policy is left to the target."""
    return settings.is_excluded(_POLICY) or settings.keeps(SourceTopic(source.name), _POLICY)


def _is_past_prefix(source: LogRange, target: LogRange) -> bool:
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


def _copied_settings(
    source: TopicDescription, defaults: Configs, replication_factor: int, left_out: Collection[str]
) -> Iterator[tuple[str, str]]:
    for name, value in source.own_configs.items():
        if name in left_out or name not in defaults:
            continue
        if name == _TAKEN_OVER_ONCE:
            yield name, str(min(int(value), replication_factor))
        else:
            yield name, value


def _demanded_settings(
    source: TopicDescription, defaults: Configs, settings: ConfigSettings
) -> Iterator[tuple[str, str]]:
    """Yield settings that have to differ from the target's defaults for the source's batches to fit. A setting that
    only makes more of them fit is left out where it is excluded.
    """
    topic = SourceTopic(source.name)

    def is_left(own: str) -> bool:
        return own not in NEEDED and (settings.is_excluded(own) or settings.keeps(topic, own))

    demanded = {
        "cleanup.policy": source.cleanup_policy,
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    } | dict.fromkeys(_TIMESTAMP_LIMITS, str(LONG_MAX))
    for name, value in demanded.items():
        entry = defaults.get(name)
        if entry is not None and entry.value != value and not is_left(name):
            yield name, value
    entry = defaults.get("max.message.bytes")
    theirs = batch_bytes_max(source)
    if entry is not None and not is_left("max.message.bytes") and int(entry.value or 0) < theirs:
        yield "max.message.bytes", str(theirs)


def _notes(
    source: TopicDescription, defaults: Configs, replication_factor: int, left_out: Collection[str]
) -> Iterator[Problem]:
    if replication_factor < source.replication_factor:
        yield Problem(
            f"{format_count(source.replication_factor, 'replica')} at the source, {replication_factor} at the "
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
    """Yield notes on what will be missing at the target, and how long filling takes where it takes long."""
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
            f"{format_count(offsets, 'offset')} before the first records are filled and deleted first",
            f"This takes about {minutes:,.0f} min and up to {offsets * 6 // 10_000_000:,} MB of "
            "disk per replica until it is done.",
        )
