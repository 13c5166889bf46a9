"""What MirrorConnectorsIntegrationSSLTest asks: TLS at one of both clusters (docs/mm2-conformance.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.records.flows import PARTITIONS, PER_PARTITION, Flow, contents, create, positions, produce
from testing.runs.running import configuration_of

pytestmark = pytest.mark.integration


def test_replication(
    east: LocalCluster, secured: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """Both directions: every record is there once under the names of MirrorMaker 2, and groups stand where they did."""
    forth = Flow.between(east, secured, topic("test-topic")).carrying()
    assert secured.cluster().security.protocol == "SASL_SSL"
    for side in (forth.source, forth.target):
        create(side, forth.stem)
        produce(side, forth.stem)
        consumers.commit(side.cluster, {f"{forth.stem}-{side.alias}": {(forth.stem, 0): 7}})
    outcome = isthmus.open(configuration_of(forth.link(), forth.back.link()), spark=spark).run(until="caught-up")
    assert (outcome.exit_code, outcome.records) == (0, 2 * PARTITIONS * PER_PARTITION)
    for one in (forth, forth.back):
        assert contents(one.target, one.remote(one.stem)) == contents(one.source, one.stem)
        assert positions(one.target, f"{one.stem}-{one.source.alias}") == {(one.remote(one.stem), 0): 7}
