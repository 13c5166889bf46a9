"""What is remembered of a cluster elsewhere, for when it cannot be asked: names and counts, no login and no address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from isthmus.model.instant import written_instant

_MS_PER_S: Final = 1000


class KnownFeature(NamedTuple):
    """A feature and its level in a cluster."""

    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCluster:
    """A cluster as the controller of `link` on `host` saw it at `seen_ms`.

    `alias` is what that controller's file calls it, `versions` are the Kafka releases of its brokers, and `topics`
    counts those that the link may see.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnown:
    """A memory of a cluster, kept by another one, and its age (s). `away` are those that did not answer."""

    cluster: KnownCluster
    kept_by: str
    age_s: float
    away: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        known = self.cluster
        return {
            "cluster": known.alias,
            "cluster_id": known.cluster_id,
            "versions": list(known.versions),
            "brokers": known.brokers,
            "topics": known.topics,
            "features": {feature.name: feature.level for feature in known.features},
            "seen_by": f"link {known.link} on {known.host}",
            "seen_at": written_instant(known.seen_ms),
            "age_seconds": round(self.age_s, 1),
            "kept_by": self.kept_by,
            "away": list(self.away),
        }


def newest(
    memories: dict[str, list[KnownCluster]], alias: str, *, now_ms: int, away: tuple[str, ...]
) -> LastKnown | None:
    """The newest of what ledgers, by the alias of their cluster, hold of a cluster; `None` where they hold nothing."""
    found = [
        (known.seen_ms, place, known) for place, all_of in memories.items() for known in all_of if known.alias == alias
    ]
    if not found:
        return None
    seen_ms, place, known = max(found, key=lambda one: (one[0], one[1]))
    # Clocks of two hosts differ: nothing is younger than this moment.
    return LastKnown(cluster=known, kept_by=place, age_s=max(now_ms - seen_ms, 0) / _MS_PER_S, away=away)
