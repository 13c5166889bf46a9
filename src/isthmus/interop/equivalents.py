"""The equivalents of a flow's settings: one line in `EQUIVALENTS` for each.

`becomes(path)` writes the value under that path of the link; `mark_handled()` is for results of more than one setting,
which `links.py` computes. The others give the reason why a setting has no equivalent, and the remedy. `default` is
MirrorMaker 2's value if the setting is not written, and counts as written; `off` are values with which nothing is lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.interop.deployment import Impact, MirrorConnector

PATH_OF_CLASSES: Final = "org.apache.kafka.connect.mirror."


class Fate(enum.Enum):
    """The code that handles a setting."""

    WRITTEN = enum.auto()
    HANDLED = enum.auto()
    REPORTED = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """The equivalent of one setting."""

    fate: Fate
    path: str = ""
    read: Callable[[str], object] = str
    impact: Impact = Impact.UNNEEDED
    why: str = ""
    todo: str = ""
    default: str = ""
    off: frozenset[str] = frozenset()
    connector: MirrorConnector | None = None


def truth(text: str) -> bool:
    """Parse a truth value as Kafka does.

    :raises ValueError: It is none.
    """
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def seconds(text: str) -> float:
    """Parse a time above 0.

    :raises ValueError: It is none.
    """
    try:
        number = int(text.strip())
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError("must be a whole number of seconds above 0")
    return float(number)


def records(text: str) -> int:
    """Parse a number of records; a negative one counts as 0.

    :raises ValueError: It is none.
    """
    try:
        return max(0, int(text.strip()))
    except ValueError:
        raise ValueError("must be a whole number") from None


def defaults_from(text: str) -> str:
    """Parse a side; for MirrorMaker 2 every other value than the source is the target."""
    return "source" if text.strip() == "source" else "target"


def side(text: str) -> str:
    """Parse one end of a flow.

    :raises ValueError: It is none.
    """
    if text.strip() not in ("source", "target"):
        raise ValueError("must be source or target")
    return text.strip()


def becomes(path: str, read: Callable[[str], object] = str, default: str = "") -> Equivalent:
    """The parsed value is written under a path of the link."""
    return Equivalent(fate=Fate.WRITTEN, path=path, read=read, default=default)


def mark_handled() -> Equivalent:
    """Several settings decide together: see `links.py`."""
    return Equivalent(fate=Fate.HANDLED)


def mark_lost(
    why: str, todo: str = "", *, default: str = "", off: str = "", connector: MirrorConnector | None = None
) -> Equivalent:
    """Isthmus does not do it."""
    return _reported_as(Impact.LOST, why, todo, default, off, connector)


def mark_changed(why: str, todo: str = "", *, off: str = "") -> Equivalent:
    """Isthmus does it in another way."""
    return _reported_as(Impact.CHANGED, why, todo, "", off, None)


def mark_unneeded(why: str) -> Equivalent:
    """Isthmus does not need it."""
    return _reported_as(Impact.UNNEEDED, why, "", "", "", None)


def _reported_as(
    impact: Impact, why: str, todo: str, default: str, off: str, connector: MirrorConnector | None
) -> Equivalent:
    values = frozenset({off}) if off else frozenset()
    return Equivalent(
        fate=Fate.REPORTED, impact=impact, why=why, todo=todo, default=default, off=values, connector=connector
    )


_CREATION: Final = "A topic gets the source's configuration when Isthmus creates it; later changes are not followed"
_OWN_REPLICAS: Final = mark_unneeded("internal topics get as many replicas as the brokers give by default")
_NO_WORKER: Final = mark_unneeded("there is no Connect worker; what Isthmus remembers is in its ledger on the target")
_NO_CONVERTER: Final = mark_lost(
    "Isthmus copies batches as the bytes they are and converts nothing",
    off="org.apache.kafka.connect.converters.ByteArrayConverter",
)
_OWN_METRICS: Final = mark_unneeded("Isthmus has metrics of its own, for Prometheus (docs/metrics.md)")
_OWN_CLIENT: Final = mark_unneeded(
    "Isthmus has clients of its own, which need no tuning; links[].limits bounds their use of resources"
)

EQUIVALENTS: Final[Mapping[str, Equivalent]] = {
    "enabled": mark_handled(),
    "name": mark_handled(),
    "connector.class": mark_handled(),
    "source.cluster.alias": mark_handled(),
    "target.cluster.alias": mark_handled(),
    # Topics.
    "topics": mark_handled(),
    "topics.exclude": mark_handled(),
    "topic.filter.class": mark_handled(),
    "replication.policy.class": mark_handled(),
    "replication.policy.separator": mark_handled(),
    "replication.policy.internal.topic.separator.enabled": mark_handled(),
    "consumer.auto.offset.reset": mark_handled(),
    "refresh.topics.interval.seconds": becomes("topics_interval_s", seconds),
    "refresh.topics.enabled": mark_changed("Isthmus always looks for new topics and partitions", off="true"),
    "replication.factor": mark_changed(
        "a new topic gets as many replicas as at the source, as far as the target has brokers",
        "topics.replication_factor of a link sets another number.",
    ),
    # Configurations and access rules of topics.
    "sync.topic.configs.enabled": becomes("configs.sync", truth, default="true"),
    "sync.topic.configs.interval.seconds": becomes("configs.interval_s", seconds),
    "config.properties.exclude": mark_handled(),
    "config.property.filter.class": mark_lost(
        "Isthmus runs no filter of Java, so only that class knows which configurations it lets pass",
        "Exclude configurations that each cluster sets for itself by configs.exclude.",
        off=f"{PATH_OF_CLASSES}DefaultConfigPropertyFilter",
    ),
    "use.defaults.from": becomes("configs.use_defaults_from", defaults_from),
    "use.incremental.alter.configs": mark_unneeded("configurations are always changed one by one"),
    "sync.topic.acls.enabled": mark_handled(),
    "sync.topic.acls.interval.seconds": becomes("access.interval_s", seconds),
    # Groups.
    "groups": mark_handled(),
    "groups.exclude": mark_handled(),
    "group.filter.class": mark_handled(),
    "sync.group.offsets.enabled": mark_handled(),
    "sync.group.offsets.interval.seconds": mark_unneeded("a position is carried as soon as it is committed"),
    "refresh.groups.enabled": mark_unneeded("new groups are always seen"),
    "refresh.groups.interval.seconds": mark_unneeded("a new group is seen as soon as it commits"),
    # The topics that MirrorMaker 2 writes beside the data.
    "emit.heartbeats.enabled": mark_handled(),
    "emit.heartbeats.interval.seconds": becomes("mm2.heartbeats_interval_s", seconds),
    "heartbeats.replication.enabled": becomes("mm2.heartbeats_replication", truth),
    "heartbeats.topic.replication.factor": _OWN_REPLICAS,
    "emit.checkpoints.enabled": mark_handled(),
    "emit.checkpoints.interval.seconds": becomes("mm2.checkpoints_interval_s", seconds),
    "checkpoints.topic.replication.factor": _OWN_REPLICAS,
    "emit.offset-syncs.enabled": mark_handled(),
    "offset-syncs.topic.location": mark_handled(),
    "offset-syncs.topic.replication.factor": _OWN_REPLICAS,
    "offset.lag.max": mark_handled(),
    # The transport of records.
    "tasks.max": mark_unneeded("Spark's task slots share the partitions (spark.slots)"),
    "tasks.max.enforce": mark_unneeded("Spark's task slots share the partitions (spark.slots)"),
    "config.action.reload": mark_unneeded("files with secrets are read again whenever a connection is made"),
    "connector.plugin.version": _NO_WORKER,
    "consumer.isolation.level": mark_changed(
        "records of aborted transactions are never visible to read_committed consumers of the target",
        off="read_committed",
    ),
    "consumer.poll.timeout.ms": _OWN_CLIENT,
    "admin.timeout.ms": _OWN_CLIENT,
    "key.converter": _NO_CONVERTER,
    "value.converter": _NO_CONVERTER,
    "header.converter": _NO_CONVERTER,
    "transforms": mark_handled(),
    "exactly.once.support": mark_unneeded("every record is copied exactly once in any case"),
    "exactly.once.source.support": mark_unneeded("every record is copied exactly once in any case"),
    "transaction.boundary": mark_unneeded("every record is copied exactly once in any case"),
    "transaction.boundary.interval.ms": mark_unneeded("every record is copied exactly once in any case"),
    "forwarding.admin.class": mark_lost("topics are created by requests to the target, and by nothing else"),
    "add.source.alias.to.metrics": _OWN_METRICS,
    "metric.names.formats": _OWN_METRICS,
    "dedicated.mode.enable.internal.rest": _NO_WORKER,
    "group.id": _NO_WORKER,
}
"""By the names of MirrorMaker 2."""

FAMILIES: Final[Mapping[str, Equivalent]] = {
    "transforms.": mark_handled(),
    "predicates": mark_handled(),
    "producer.": _OWN_CLIENT,
    "consumer.": _OWN_CLIENT,
    "admin.": _OWN_CLIENT,
    "source.consumer.": _OWN_CLIENT,
    "source.producer.": _OWN_CLIENT,
    "source.admin.": _OWN_CLIENT,
    "target.consumer.": _OWN_CLIENT,
    "target.producer.": _OWN_CLIENT,
    "target.admin.": _OWN_CLIENT,
    "key.converter.": _NO_CONVERTER,
    "value.converter.": _NO_CONVERTER,
    "header.converter.": _NO_CONVERTER,
    "topic.creation.": mark_lost(_CREATION),
    "errors.": mark_unneeded("a partition that cannot go on stops and states why; nothing is skipped"),
    "metric": _OWN_METRICS,
    "offset.storage.": _NO_WORKER,
    "offsets.storage.": _NO_WORKER,
    "config.storage.": _NO_WORKER,
    "status.storage.": _NO_WORKER,
    "offset.flush.": _NO_WORKER,
    "listeners": _NO_WORKER,
    "rest.": _NO_WORKER,
    "config.providers": mark_unneeded("references are read by their usual names: file, env, dir, directory, secrets"),
    "admin.listeners": _NO_WORKER,
    "plugin.": _NO_WORKER,
    "task.": _NO_WORKER,
    "worker.": _NO_WORKER,
    "scheduled.rebalance.": _NO_WORKER,
    "connector.client.config.override.policy": _NO_WORKER,
    "connect.protocol": _NO_WORKER,
    "inter.worker.": _NO_WORKER,
}
"""By the beginning of names, for those without a line of their own."""

ALIASES: Final[Mapping[str, str]] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Old names; MirrorMaker 2 uses the new one if both are given."""


def equivalent_of(key: str) -> Equivalent | None:
    """Return the equivalent of a setting, `None` if MirrorMaker 2 does not know it either."""
    if key in EQUIVALENTS:
        return EQUIVALENTS[key]
    families = [family for family in FAMILIES if key.startswith(family)]
    return FAMILIES[max(families, key=len)] if families else None
