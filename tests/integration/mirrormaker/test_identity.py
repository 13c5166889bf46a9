"""What IdentityReplicationIntegrationTest asks, and what identity names mean both ways (docs/mm2-conformance.md)."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.model.naming import IDENTITY
from isthmus.topics.preflight import TopicMode
from testing.records import oracle, topics
from testing.records.flows import PARTITIONS, PER_PARTITION, Flow, consume, create, go_on, produce
from testing.runs.running import configuration_of

pytestmark = pytest.mark.integration

ALL = PARTITIONS * PER_PARTITION


def test_replication(flow: Flow, spark: SparkSession) -> None:
    """One way under the same names: the same records at the same offsets, and a group that goes on where it was."""
    create(flow.source, flow.stem)
    produce(flow.source, flow.stem)
    group = f"{flow.stem}-group"
    consume(flow.source, group, [flow.stem], ALL)
    produce(flow.source, flow.stem, count=1, begin=500)
    link = flow.carrying().link(naming=IDENTITY)
    assert isthmus.open(configuration_of(link), spark=spark).run(until="caught-up").records == ALL + PARTITIONS
    oracle.assert_same(flow.source.cluster, flow.target.cluster, flow.stem, partitions=PARTITIONS)
    assert sorted(go_on(flow.target, group, flow.stem, PARTITIONS)) == [b"1500", b"2500", b"500"]


def test_identity_replication(flow: Flow, spark: SparkSession) -> None:
    """Both ways under the same names no record goes round: one direction is refused, and says why."""
    create(flow.source, flow.stem)
    produce(flow.source, flow.stem)
    links = [flow.link(naming=IDENTITY), flow.back.link(naming=IDENTITY)]
    fabric = isthmus.open(configuration_of(*links), spark=spark)
    outcome = fabric.run(until="caught-up")
    assert (outcome.exit_code, outcome.records) == (1, ALL)
    forth, back = fabric.plan().links
    assert [(t.topic, t.mode) for t in forth.topics] == [(flow.stem, TopicMode.IDENTITY)]
    assert [(t.topic, t.mode) for t in back.topics] == [(flow.stem, TopicMode.REFUSED)]
    oracle.assert_same(flow.source.cluster, flow.target.cluster, flow.stem, partitions=PARTITIONS)
    assert {name for name in topics.names(flow.source.cluster) if flow.stem in name} == {flow.stem}
