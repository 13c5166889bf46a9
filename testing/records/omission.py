"""What a copy leaves out, as independent consumers see it."""

from __future__ import annotations

from isthmus.local import LocalCluster
from testing.records import oracle


def assert_left_out(source: LocalCluster, target: LocalCluster, name: str, *, partitions: int = 1) -> int:
    """At read_committed both sides are the same, and the target holds nothing else; how many records it lacks."""
    oracle.assert_same(source, target, name, partitions=partitions, isolations=["read_committed"])
    everything = oracle.records(target.admin_bootstrap_servers, name, "read_uncommitted", partitions=partitions)
    committed = oracle.records(source.admin_bootstrap_servers, name, "read_committed", partitions=partitions)
    for partition in range(partitions):
        oracle.assert_equal(everything[partition], committed[partition], f"{name}-{partition} at both levels")
        seen = oracle.ends(target.admin_bootstrap_servers, name, partition)
        assert seen == oracle.ends(source.admin_bootstrap_servers, name, partition)
        assert seen.stable == seen.high
    written = oracle.records(source.admin_bootstrap_servers, name, "read_uncommitted", partitions=partitions)
    return sum(map(len, written)) - sum(map(len, everything))
