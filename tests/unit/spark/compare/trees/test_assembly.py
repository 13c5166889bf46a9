"""From numbers to a verdict."""

from __future__ import annotations

import json

from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import Tree, node_of
from isthmus.model.trees.treeverdict import TreeFaultKind, TreeFinding, TreeVerdict
from isthmus.spark.compare.trees.assembly import LaneTotals, TreeFound, topic_verdicts
from isthmus.spark.compare.trees.judgement import TreeStandings

KNOWN = TreeStandings(
    tree=Tree(name="t", root=node_of(["ams", "lon"])), lanes=(("cargo", 0), ("flights", 3)), early={}, late={}
)


def test_what_is_wrong_stands_at_its_partition_and_cluster() -> None:
    """With its first findings; what was found nowhere is 0 everywhere."""
    found = TreeFound(
        totals=[LaneTotals(1, (5, 6), (3, 2))],
        faults={(1, 1): (1, 0, 4, 0, 0)},
        breaks={(1, 0, 1): 2},
        findings=[(1, 1, "doubled", 9, None, None, 2), (1, 1, "out_of_order", 5, 0, 4, 6)],
    )
    cargo, flights = topic_verdicts(KNOWN, found)
    assert (cargo.topic, cargo.is_right, cargo.count("records")) == ("cargo", True, 0)
    ams, lon = flights.partitions
    assert (ams.cluster, ams.partition, ams.records, ams.local, ams.is_right) == ("ams", 3, 5, 3, True)
    assert (lon.doubled, lon.out_of_order, lon.missing, lon.waiting, lon.is_right) == (1, 2, 0, 4, False)
    assert lon.findings == (
        TreeFinding(kind=TreeFaultKind.DOUBLED, offset=9, other_offset=2),
        TreeFinding(kind=TreeFaultKind.OUT_OF_ORDER, offset=5, origin="ams", origin_offset=4, other_offset=6),
    )
    assert [str(each) for each in lon.findings] == [
        "offset 9 is doubled: it is offset 2 again",
        "offset 5 (offset 4 of ams) is out of order: it belongs behind offset 6",
    ]
    verdict = TreeVerdict(tree="t", clusters=("ams", "lon"), topics=(cargo, flights))
    assert (verdict.equal, verdict.count("records")) == (False, 11)
    assert json.loads(json.dumps(plain(verdict)))["topics"][1]["partitions"][1]["findings"][0]["kind"] == "doubled"


def test_only_what_is_wrong_is_looked_at_again() -> None:
    """What is still to come or was deleted is no fault; what another look says of partitions takes the place of what
    the first one did.
    """
    first = TreeFound(
        totals=[LaneTotals(lane, (5, 5), (5, 0)) for lane in range(4)],
        faults={(0, 0): (0, 0, 7, 8, 9), (1, 0): (0, 1, 0, 0, 0), (2, 0): (1, 0, 0, 0, 0)},
        breaks={(0, 0, 1): 0, (3, 0, 1): 1},
    )
    assert first.wrong == {1, 2, 3}
    other = TreeFound(
        totals=[LaneTotals(lane, (5, 5), (5, 0)) for lane in (1, 2, 3)],
        faults={(2, 0): (1, 0, 0, 0, 0)},
        breaks={(3, 0, 1): 0},
        findings=[(2, 0, "doubled", 9, None, None, 2)],
    )
    found = first.with_other(other, first.wrong)
    assert found.wrong == {2}
    assert (found.findings, len(found.totals)) == (other.findings, 4)
    assert found.faults == {(0, 0): (0, 0, 7, 8, 9), (2, 0): (1, 0, 0, 0, 0)}
