"""The facts about a cluster that are remembered elsewhere, for when it cannot be asked: no login, no secret and no
address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from isthmus.model.kafka.access import EVERYBODY, EVERYTHING, Rule
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, null_if_negative, tenths

_MS_PER_S: Final = 1000
_DIGITS: Final = 12


class KnownFeature(NamedTuple):
    """A feature and its level in a cluster."""

    name: str
    level: int


def _by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    return dict(pairs)


def _levels(features: Iterable[KnownFeature]) -> dict[str, int]:
    return dict(features)


class KnownBroker(NamedTuple):
    """A broker without its address. `version` is its Kafka release, "" where it did not answer."""

    node_id: int
    rack: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCluster:
    """A cluster as the controller of `link` on `host` saw it at `seen_ms`.

    `alias` is its name in that controller's file, `versions` are the Kafka releases of its brokers, and `topics` counts
    those that the link may see.
    """

    cluster_id: Hidden[str]
    alias: Annotated[str, "cluster"]
    versions: tuple[str, ...]
    brokers: int
    topics: int
    features: Annotated[tuple[KnownFeature, ...], _levels]
    link: Hidden[str]
    host: Hidden[str]
    seen_ms: Annotated[int, "seen_at", written_instant]
    nodes: Hidden[tuple[KnownBroker, ...]] = ()

    @computed_field(before="versions")
    def known_id(self) -> Annotated[str, "cluster_id"]:
        return self.cluster_id

    @computed_field(before="topics")
    def known_nodes(self) -> Annotated[tuple[KnownBroker, ...], "nodes"]:
        return self.nodes

    @computed_field(before="seen_ms")
    def seen_by(self) -> str:
        return f"link {self.link} on {self.host}"


class KnownLog(NamedTuple):
    """Where the log of a partition began and ended; null where that is not known.

    Offsets are -1 if its leader did not report them.
    """

    partition: int
    start: Annotated[int, "log_start", null_if_negative]
    end: Annotated[int, "log_end", null_if_negative]


class KnownSetting(NamedTuple):
    """A configuration of a topic's own; sensitive ones are not remembered."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic(PlainValue):
    """A topic as it is remembered elsewhere."""

    name: Annotated[str, "topic"]
    replicas: int
    logs: Annotated[tuple[KnownLog, ...], "partitions"]
    settings: Annotated[tuple[KnownSetting, ...], "configs", _by_name] = ()


class KnownGroup(NamedTuple):
    """A consumer group of a link's namespaces."""

    group: str
    type: str
    state: str


class KnownRule(NamedTuple):
    """An access rule about topics or groups of a link's namespaces.

    Of its principal only a digest is remembered, by which who knows the name knows it again, and of its host whether
    it is a single one.
    """

    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    principal: str
    is_for_one_host: bool

    @classmethod
    def of(cls, rule: Rule) -> KnownRule:
        """Return the part of a rule that is remembered."""
        kind, _, name = rule.principal.partition(":")
        digest = hashlib.sha256(rule.principal.encode()).hexdigest()[:_DIGITS]
        return cls(
            str(rule.permission),
            rule.operation,
            str(rule.resource),
            rule.name,
            str(rule.pattern),
            rule.principal if rule.principal == EVERYBODY else f"{kind if name else 'User'}:#{digest}",
            rule.host != EVERYTHING,
        )


class Untold(NamedTuple):
    """A fact that a cluster did not report, and the reason."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames(PlainValue):
    """The records about the namespaces of a link. `not_told` states why a part is missing.

    The names within the namespaces of `link` at a cluster, as its controller saw them at `seen_ms`. `left_out` counts
    the names without room.
    """

    cluster_id: Hidden[str]
    alias: Hidden[str]
    link: str
    seen_ms: Annotated[int, "seen_at", written_instant]
    topics: tuple[KnownTopic, ...] = ()
    groups: tuple[KnownGroup, ...] = ()
    rules: tuple[KnownRule, ...] = ()
    left_out: int = 0
    untold: Annotated[tuple[Untold, ...], "not_told", _by_name] = ()


class Memories(NamedTuple):
    """The memories of other clusters in the ledger of one cluster."""

    clusters: Sequence[KnownCluster] = ()
    names: Sequence[KnownNames] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown(PlainValue):
    """A cluster as others remember it.

    The memory is kept by another one. `away` are those that did not answer.

    `names` are its names within the namespaces of each link, the newest of each; they may be older than the rest.
    """

    cluster: Flat[KnownCluster]
    age_s: Annotated[float, "age_seconds", tenths]
    kept_by: str
    away: tuple[str, ...] = ()
    names: Annotated[tuple[KnownNames, ...], "namespaces"] = ()


def newest(memories: Mapping[str, Memories], alias: str, *, now_ms: int, away: tuple[str, ...]) -> LastKnown | None:
    """Return the newest memory of a cluster, of those in ledgers by the alias of their cluster; `None` if there is
    none.
    """
    found = [
        (known.seen_ms, place, known)
        for place, held in memories.items()
        for known in held.clusters
        if known.alias == alias
    ]
    if not found:
        return None
    seen_ms, place, known = max(found, key=lambda one: (one[0], one[1]))
    names: dict[str, KnownNames] = {}
    for held in memories.values():
        for each in held.names:
            if each.cluster_id == known.cluster_id and (
                each.link not in names or names[each.link].seen_ms < each.seen_ms
            ):
                names[each.link] = each
    return LastKnown(
        cluster=known,
        kept_by=place,
        # Clocks of two hosts differ: no memory is younger than this moment.
        age_s=max(now_ms - seen_ms, 0) / _MS_PER_S,
        away=away,
        names=tuple(names[link] for link in sorted(names)),
    )
