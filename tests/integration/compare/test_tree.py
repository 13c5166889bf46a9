"""Trees: records that are doubled, out of order or missing on a cluster are found, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus import config
from isthmus.kafka.batches.batch import HEADER_BYTES, scan, stamp
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.copyflags import distributor_producer_id
from isthmus.spark.compare.trees import standings as counting
from isthmus.spark.compare.trees.records import STANDING_FIELDS
from testing.records import topics
from testing.records.forgery import Record, append, built
from testing.runs import command
from testing.runs.treeload import PARTITIONS, file_of, produce

pytestmark = pytest.mark.integration

EAST, WEST, NORTH = range(3)


def written_by_a_distributor(cluster: LocalCluster, name: str, numbers: Sequence[int]) -> None:
    """Copies of records of east, as a distributor of the tree would write them."""
    records = [Record(topics.SEPTEMBER + n, b"east", b"%d" % n, (("from", b"east"),)) for n in numbers]
    batch = next(scan(built(records)))
    data = stamp(batch, distributor_producer_id(1, numbers[0]), 0, 0) + bytes(batch.view[HEADER_BYTES:])

    async def write() -> None:
        async with Client(cluster.cluster()) as client:
            await append(client, name, data)

    asyncio.run(write())


def test_what_is_wrong_in_a_tree_is_found(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """All is right once everything is copied. A copy that somebody makes once more is doubled then, two in another
    order are out of order, one that later ones have overtaken is missing, and what comes last is waited for.
    """
    name = topic("proven")
    clusters = {"east": east, "west": west}
    for number, (alias, cluster) in enumerate(clusters.items()):
        topics.create(cluster, name, partitions=PARTITIONS)
        produce(cluster, alias, name, range(60), ("lz4", "none")[number])
    whole = file_of(clusters, ["east", "west"], name)
    file = tmp_path / "isthmus.yaml"
    file.write_text(json.dumps({**whole, "spark": {"master": "local[2]"}}))
    told: list[str] = []
    with isthmus.open(config.parse(json.dumps(whole)), spark=spark) as fabric:
        assert not fabric.run(until="caught-up").errors
        right = fabric.trees.verify(name, topics=[name], on_progress=lambda what, _, __: told.append(what))
        assert (right.equal, right.count("records"), right.count("local")) == (True, 480, 240)
        assert [right.count(what) for what in ("waiting", "deleted", "unjudged")] == [0, 0, 0]
        assert any(what == f"verify tree {name}: records as they are stored" for what in told)
    produce(east, "east", name, range(60, 65), "none")
    written_by_a_distributor(west, name, [61, 60])
    written_by_a_distributor(west, name, [7])
    written_by_a_distributor(west, name, [63])
    done = command.run("tree", "verify", name, "-o", "json", "-c", file)
    assert done.returncode == 4, done.stderr
    wrong = {
        (each["partition"], each["cluster"]): each
        for each in json.loads(done.stdout)["topics"][0]["partitions"]
        if each["findings"] or each["waiting"]
    }
    assert wrong.keys() == {(0, "west"), (1, "west")}
    assert (wrong[1, "west"]["waiting"], wrong[1, "west"]["findings"]) == (5, [])
    at_west = wrong[0, "west"]
    counts = {what: at_west[what] for what in ("doubled", "out_of_order", "missing", "waiting")}
    assert counts == {"doubled": 1, "out_of_order": 1, "missing": 1, "waiting": 1}
    doubled, missing, order = at_west["findings"]
    assert (doubled["kind"], doubled["offset"]) == ("doubled", 122)
    assert doubled["other_offset"] < 120
    assert (missing["kind"], missing["origin"], missing["origin_offset"]) == ("missing", "east", 122)
    assert order == {
        "kind": "out_of_order",
        "offset": 120,
        "origin": "east",
        "origin_offset": 121,
        "other_offset": 121,
    }


class Lane:
    """Records of one partition, to be counted."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[tuple[int, int, int, bool, bool, bytes]] = []

    def on(self, cluster: int, records: str, *, begin: int = 0, end: int = 99) -> Lane:
        """A letter for each record from an offset on, a capital one where it came in there; those from `end` on have
        come since the first look."""
        for offset, letter in enumerate(records, begin):
            row = (self.number, cluster, offset, letter.isupper(), offset < end, letter.lower().encode())
            self.rows.append(row)
        return self


def test_records_are_counted_on_all_clusters(spark: SparkSession) -> None:
    """Those that came in twice may be there twice; what somebody lacks is missing only if it can be nothing else."""
    lanes = [
        # All right: two that are alike came in, on two clusters; and what came in since the first look is copied soon.
        Lane(0).on(EAST, "ABaX", end=3).on(WEST, "Aabx").on(NORTH, "baa", end=3),
        # One copy too many; what was copied since the first look has nothing to be compared with.
        Lane(1).on(EAST, "AB").on(WEST, "abb").on(NORTH, "aba", end=2),
        # Of c nobody knows where it came in.
        Lane(2).on(EAST, "Ac").on(WEST, "acc").on(NORTH, "a"),
        # Deleted, missing, still to come: of what came in on east.
        Lane(3).on(EAST, "ABCDE").on(WEST, "bd", begin=7).on(NORTH, "abcde"),
        # Of three that are alike two are there, and the last one may be still to come; of two one is missing.
        Lane(4).on(EAST, "CAABA").on(WEST, "caab").on(NORTH, "caaba"),
        Lane(5).on(EAST, "CAAB").on(WEST, "cab").on(NORTH, "caab"),
        # Out of order in one place; records that are alike belong to each other as they come.
        Lane(6).on(EAST, "ABCDA").on(WEST, "acbda").on(NORTH, "aabcd"),
        # A log cleaner may have taken the one that was there first.
        Lane(7).on(EAST, "A").on(WEST, "aa").on(NORTH, "a"),
    ]
    # On west all is deleted that came in on east before 1, and from 4 on it is still to come; on north all has come.
    end = 2**62
    certain = [
        (lane, origin, cluster, 1 if cluster == WEST else 0, 4 if cluster == WEST else end)
        for lane in range(len(lanes))
        for origin in (EAST, WEST, NORTH)
        for cluster in (EAST, WEST, NORTH)
        if cluster != origin
    ]
    rows = spark.createDataFrame([row for lane in lanes for row in lane.rows], STANDING_FIELDS)
    standing = counting.standings(rows, 3, 2).persist()
    fault = counting.faults(standing, spark.createDataFrame(certain, counting.CERTAIN_FIELDS), [7])
    found = {(lane, cluster): tuple(counts) for lane, cluster, *counts in counting.fault_totals(fault).collect()}
    paired = counting.pairs(standing)
    breaks = {(row.lane, row.cluster): row.breaks for row in counting.reaches(paired).collect() if row.breaks}
    findings = counting.first_of_each(counting.wrong(fault).unionByName(counting.out_of_order(paired)), 10)
    first = [tuple(row) for row in findings.collect()]
    standing.unpersist()

    assert {key: counts for key, counts in found.items() if any(counts)} == {
        (1, WEST): (1, 0, 0, 0, 0),
        (2, EAST): (0, 0, 0, 0, 1),
        (2, WEST): (0, 0, 0, 0, 2),
        (3, WEST): (0, 1, 1, 1, 0),
        (4, WEST): (0, 0, 1, 0, 0),
        (5, WEST): (0, 1, 0, 0, 0),
        (7, WEST): (0, 0, 0, 0, 1),
    }
    assert breaks == {(6, WEST): 1, (6, NORTH): 1}
    assert first == [
        (1, WEST, "doubled", 2, None, None, 1),
        (3, WEST, "missing", None, EAST, 2, None),
        (5, WEST, "missing", None, EAST, 1, None),
        (6, WEST, "out_of_order", 1, EAST, 2, 2),
        (6, NORTH, "out_of_order", 1, EAST, 4, 4),
    ]
