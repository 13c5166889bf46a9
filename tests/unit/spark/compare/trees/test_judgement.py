"""What becomes of a record that a cluster lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.model.kafka.log import LogRange
from isthmus.model.trees.tree import Tree, node_of
from isthmus.spark.compare.trees.judgement import NO_OFFSET, CertainRange, Reach, TreeStandings, certain_range

KEY = ("flights", 0)
TREE = Tree(name="t", root=node_of([["ams", "fra"], ["lon", "par"]]))
LOGS = {alias: {KEY: LogRange(0, 10, 10)} for alias in TREE.clusters}
STANDINGS = TreeStandings(tree=TREE, lanes=(KEY,), early=LOGS, late=LOGS)


@pytest.mark.parametrize(
    ("reach", "known", "expected"),
    [
        (Reach(10, 20), {}, (0, 21)),
        (Reach(10, 20), {"has_copied_all": True}, (0, NO_OFFSET)),
        (Reach(10, 20), {"has_deleted": True}, (10, 21)),
        (Reach(10, 20), {"is_compacted": True, "has_copied_all": True}, (NO_OFFSET, NO_OFFSET)),
        (Reach(10, 20), {"is_doubted": True, "has_copied_all": True}, (0, 0)),
        (None, {}, (0, 0)),
        (None, {"has_copied_all": True}, (0, NO_OFFSET)),
        (None, {"has_copied_all": True, "has_deleted": True}, (NO_OFFSET, NO_OFFSET)),
    ],
    ids=[
        "tail",
        "all copied",
        "beginning deleted",
        "compacted",
        "in doubt",
        "nothing",
        "nothing of all",
        "all deleted",
    ],
)
def test_which_records_are_missing_for_certain(
    reach: Reach | None, known: dict[str, bool], expected: tuple[int, int]
) -> None:
    """Those before the first that is there may be deleted, if anything is; those behind the last may be on their way,
    unless all is copied; what is in doubt comes late; a log cleaner takes what it likes.
    """
    unknown = dict.fromkeys(("has_deleted", "is_compacted", "has_copied_all", "is_doubted"), False)
    assert certain_range(reach, **{**unknown, **known}) == expected


def test_all_is_copied_when_everybody_on_the_way_has_copied_all() -> None:
    """From ams to par a record takes two hops, by way of lon: one that is behind makes par wait, and lon not."""
    copied_to = {"t.ams.1": {KEY: 10}, "t.ams.2": {KEY: 10}, "t.lon.1": {KEY: 9}}
    known = replace(STANDINGS, copied_to=copied_to)
    assert known.has_copied_all(KEY, "ams") == {"ams": True, "fra": True, "lon": True, "par": False}
    known = replace(STANDINGS, copied_to=copied_to | {"t.lon.1": {KEY: 10}})
    assert known.has_copied_all(KEY, "ams") == dict.fromkeys(("ams", "fra", "lon", "par"), True)
    assert not any(known.has_copied_all(KEY, "fra")[other] for other in ("ams", "lon", "par")), "it has said nothing"


def test_what_a_leaf_had_when_it_was_left_may_come_late() -> None:
    """Where a distributor went over to another leaf nothing is missing for certain until all that copies to the leaves
    of that subtree has copied all.
    """
    into = {name: {KEY: 10} for name in ("t.ams.2", "t.fra.2", "t.lon.1", "t.par.1")}
    for copied_to, end in (({**into, "t.lon.1": {KEY: 9}}, 0), (into, NO_OFFSET)):
        known = replace(STANDINGS, copied_to=copied_to, switched={"lon", "par"})
        found = known.certain_ranges({(0, 0, 2): Reach(0, 5)}, known.late)
        assert CertainRange(0, 0, 2, 0, end) in list(found)


def test_every_two_clusters_have_a_range() -> None:
    """By the numbers of partition, origin and cluster; a log that has deleted something is asked when all is read."""
    logs = {"ams": {KEY: LogRange(3, 10, 10)}}
    found = list(STANDINGS.certain_ranges({(0, 1, 0): Reach(5, 7)}, logs))
    assert len(found) == 12
    assert CertainRange(0, 1, 0, 5, 8) in found
    assert CertainRange(0, 0, 1, 0, 0) in found
