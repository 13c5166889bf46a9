"""The facts about a cluster that are remembered elsewhere, for when it cannot be asked: no login, no secret and no
address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from isthmus.model.kafka.access import EVERYBODY, EVERYTHING, Rule
from isthmus.model.text.instant import written_instant

_MS_PER_S: Final = 1000
_DIGITS: Final = 12


class KnownFeature(NamedTuple):
    """A feature and its level in a cluster."""

    name: str
    level: int


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

    cluster_id: str
    alias: str
    versions: tuple[str, ...]
    brokers: int
    topics: int
    features: tuple[KnownFeature, ...]
    link: str
    host: str
    seen_ms: int
    nodes: tuple[KnownBroker, ...] = ()


class KnownLog(NamedTuple):
    """The begin and the end of a partition's log; -1 if its leader did not report them."""

    partition: int
    start: int
    end: int


class KnownSetting(NamedTuple):
    """A configuration of a topic's own; sensitive ones are not remembered."""

    name: str
    value: str


class KnownLogJson(TypedDict):
    """Where the log of a partition began and ended; null where that is not known."""

    partition: int
    log_start: int | None
    log_end: int | None


class KnownTopicJson(TypedDict):
    """A topic as it is remembered elsewhere."""

    topic: str
    replicas: int
    partitions: list[KnownLogJson]
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic of a link's namespaces."""

    name: str
    replicas: int
    logs: tuple[KnownLog, ...]
    settings: tuple[KnownSetting, ...] = ()

    def as_dict(self) -> KnownTopicJson:
        """Plain values under stable names; what is unknown is null."""
        return {
            "topic": self.name,
            "replicas": self.replicas,
            "partitions": [
                {
                    "partition": log.partition,
                    "log_start": None if log.start < 0 else log.start,
                    "log_end": None if log.end < 0 else log.end,
                }
                for log in self.logs
            ],
            "configs": {setting.name: setting.value for setting in self.settings},
        }


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


class KnownNamesJson(TypedDict):
    """What is remembered of the namespaces of a link. `not_told` says why something is missing."""

    link: str
    seen_at: str
    topics: list[KnownTopicJson]
    groups: list[Annotated[dict[str, Any], KnownGroup]]
    rules: list[Annotated[dict[str, Any], KnownRule]]
    left_out: int
    not_told: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """The names within the namespaces of `link` at a cluster, as its controller saw them at `seen_ms`. `left_out`
    counts the names without room.
    """

    cluster_id: str
    alias: str
    link: str
    seen_ms: int
    topics: tuple[KnownTopic, ...] = ()
    groups: tuple[KnownGroup, ...] = ()
    rules: tuple[KnownRule, ...] = ()
    left_out: int = 0
    untold: tuple[Untold, ...] = ()

    def as_dict(self) -> KnownNamesJson:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "seen_at": written_instant(self.seen_ms),
            "topics": [topic.as_dict() for topic in self.topics],
            "groups": [group._asdict() for group in self.groups],
            "rules": [rule._asdict() for rule in self.rules],
            "left_out": self.left_out,
            "not_told": {each.what: each.why for each in self.untold},
        }


class Memories(NamedTuple):
    """The memories of other clusters in the ledger of one cluster."""

    clusters: Sequence[KnownCluster] = ()
    names: Sequence[KnownNames] = ()


class LastKnownJson(TypedDict):
    """A cluster as others remember it."""

    cluster: str
    cluster_id: str
    versions: list[str]
    brokers: int
    nodes: list[Annotated[dict[str, Any], KnownBroker]]
    topics: int
    features: dict[str, int]
    seen_by: str
    seen_at: str
    age_seconds: float
    kept_by: str
    away: list[str]
    namespaces: list[KnownNamesJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """A memory of a cluster, kept by another one, and its age (s). `away` are those that did not answer.

    `names` are its names within the namespaces of each link, the newest of each; they may be older than the rest.
    """

    cluster: KnownCluster
    kept_by: str
    age_s: float
    away: tuple[str, ...] = ()
    names: tuple[KnownNames, ...] = ()

    def as_dict(self) -> LastKnownJson:
        """Plain values under stable names."""
        known = self.cluster
        return {
            "cluster": known.alias,
            "cluster_id": known.cluster_id,
            "versions": list(known.versions),
            "brokers": known.brokers,
            "nodes": [node._asdict() for node in known.nodes],
            "topics": known.topics,
            "features": {feature.name: feature.level for feature in known.features},
            "seen_by": f"link {known.link} on {known.host}",
            "seen_at": written_instant(known.seen_ms),
            "age_seconds": round(self.age_s, 1),
            "kept_by": self.kept_by,
            "away": list(self.away),
            "namespaces": [each.as_dict() for each in self.names],
        }


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
