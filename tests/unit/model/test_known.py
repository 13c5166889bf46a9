"""What clusters remember of each other."""

from __future__ import annotations

from isthmus.model.known import KnownCluster, KnownFeature, newest


def known(alias: str, *, seen_ms: int, topics: int = 3) -> KnownCluster:
    """A cluster as some link saw it."""
    return KnownCluster(
        cluster_id=f"id-of-{alias}",
        alias=alias,
        versions=("4.2", "4.3"),
        brokers=2,
        topics=topics,
        features=(KnownFeature("metadata.version", 25),),
        link="east-west",
        host="h",
        seen_ms=seen_ms,
    )


def test_the_newest_memory_counts() -> None:
    """Of what several clusters hold, what was seen last is told, with its age and where it is kept."""
    memories = {
        "west": [known("east", seen_ms=1_000)],
        "north": [known("east", seen_ms=61_000), known("south", seen_ms=9)],
    }
    found = newest(memories, "east", now_ms=63_500, away=("south",))
    assert found is not None
    assert found.as_dict() == {
        "cluster": "east",
        "cluster_id": "id-of-east",
        "versions": ["4.2", "4.3"],
        "brokers": 2,
        "topics": 3,
        "features": {"metadata.version": 25},
        "seen_by": "link east-west on h",
        "seen_at": "1970-01-01T00:01:01Z",
        "age_seconds": 2.5,
        "kept_by": "north",
        "away": ["south"],
    }


def test_nothing_is_younger_than_now() -> None:
    """The clock of another host may be ahead of ours."""
    found = newest({"west": [known("east", seen_ms=10)]}, "east", now_ms=5, away=())
    assert found is not None
    assert found.age_s == 0


def test_another_cluster_is_not_it() -> None:
    """Where nobody knows a cluster of that alias there is nothing to tell."""
    assert newest({"west": [known("east", seen_ms=1)], "north": []}, "south", now_ms=2, away=()) is None
