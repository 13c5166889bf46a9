"""What clusters remember of each other."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.links.lastknown import KnownCluster, KnownNames, KnownRule, Memories, newest
from isthmus.model.text.plain import plain
from testing.values.remembered import EAST, NAMES


def known(alias: str, *, seen_ms: int) -> KnownCluster:
    """A cluster as some link saw it."""
    return replace(EAST, cluster_id=f"id-of-{alias}", alias=alias, seen_ms=seen_ms)


def names(link: str, seen_ms: int) -> KnownNames:
    """What cluster `east` had of the namespaces of a link."""
    return replace(NAMES, link=link, seen_ms=seen_ms)


def test_the_newest_memory_counts() -> None:
    """Of what several clusters hold, what was seen last is told, with its age and where it is kept."""
    memories = {
        "west": Memories([known("east", seen_ms=1_000)], [names("a", 1_000), names("b", 2_000)]),
        "north": Memories([known("east", seen_ms=61_000), known("south", seen_ms=9)], [names("a", 60_000)]),
        "south": Memories([], [replace(names("a", 70_000), cluster_id="another")]),
    }
    found = newest(memories, "east", now_ms=63_500, away=("south",))
    assert found is not None
    assert plain(found) == {
        "cluster": "east",
        "cluster_id": "id-of-east",
        "versions": ["4.2", "4.3"],
        "brokers": 2,
        "nodes": [{"node_id": 1, "rack": "rack-a", "version": "4.3"}],
        "topics": 9,
        "features": {"metadata.version": 25},
        "seen_by": "link east-west on h",
        "seen_at": "1970-01-01T00:01:01Z",
        "age_seconds": 2.5,
        "kept_by": "north",
        "away": ["south"],
        "namespaces": [plain(names("a", 60_000)), plain(names("b", 2_000))],
    }
    assert plain(found)["namespaces"][0] == {
        "link": "a",
        "seen_at": "1970-01-01T00:01:00Z",
        "topics": [
            {
                "topic": "orders",
                "replicas": 3,
                "partitions": [
                    {"partition": 0, "log_start": 5, "log_end": 9},
                    {"partition": 1, "log_start": None, "log_end": None},
                ],
                "configs": {"retention.ms": "86400000"},
            }
        ],
        "groups": [{"group": "readers", "type": "classic", "state": "Empty"}],
        "rules": [
            {
                "permission": "ALLOW",
                "operation": "WRITE",
                "resource": "topic",
                "name": "orders",
                "pattern": "LITERAL",
                "principal": "User:#0123",
                "is_for_one_host": True,
            }
        ],
        "left_out": 7,
        "not_told": {"rules of groups": "no right to see them"},
    }


def test_nothing_is_younger_than_now() -> None:
    """The clock of another host may be ahead of ours."""
    found = newest({"west": Memories([known("east", seen_ms=10)])}, "east", now_ms=5, away=())
    assert found is not None
    assert found.age_s == 0


def test_another_cluster_is_not_it() -> None:
    """Where nobody knows a cluster of that alias there is nothing to tell."""
    assert (
        newest({"west": Memories([known("east", seen_ms=1)]), "north": Memories()}, "south", now_ms=2, away=()) is None
    )


ALICE = hashlib.sha256(b"User:CN=alice").hexdigest()[:12]


@pytest.mark.parametrize(
    ("principal", "host", "told", "is_for_one_host"),
    [("User:CN=alice", "10.0.0.7", f"User:#{ALICE}", True), ("User:*", "*", "User:*", False)],
)
def test_a_rule_is_remembered_without_its_principal(
    principal: str, host: str, told: str, is_for_one_host: bool
) -> None:
    """Who knows the name knows it again by its digest; of a host only that it is one. Everybody is nobody's name."""
    rule = Rule(
        resource=Resource.TOPIC,
        name="orders",
        pattern=RulePattern.PREFIXED,
        principal=principal,
        host=host,
        operation="WRITE",
        permission=PermissionType.ALLOW,
    )
    assert KnownRule.of(rule) == ("ALLOW", "WRITE", "topic", "orders", "PREFIXED", told, is_for_one_host)
