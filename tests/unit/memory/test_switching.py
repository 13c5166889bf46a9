"""Whether a distributor copies to the leaf that the ledger of its source has for it."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from isthmus import config
from isthmus.errors import PlanRefused
from isthmus.memory.declared import Declared
from isthmus.memory.switching import check_source_agrees
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic
from isthmus.model.trees.switching import Allowance, LaneBegin, LeftAt, TargetChoice

X = SourceTopic("x")
ID = uuid.UUID(int=4)
OVER = TargetChoice(target="lon", wanted="par").over([LaneBegin(X, ID, 0, 7)])
NEWER = "which is newer than the last report that this process has read"


def link(tree: Any, choice: TargetChoice | None = None) -> Link:
    """What copies from ams at level 2 in a tree that the file has."""
    clusters = {alias: {"bootstrap_servers": f"{alias}:1"} for alias in ("ams", "fra", "lon", "par")}
    trees = [{"name": "flights", "clusters": tree, "topics": ["x"]}]
    choices = {} if choice is None else {("ams", "flights.ams.2"): choice}
    written = config.parse(json.dumps({"clusters": clusters, "trees": trees}))
    return Declared(choices=choices).over(written).link("flights.ams.2")


@pytest.mark.parametrize("tree", [[["ams", "fra"], "par"], [["ams", "fra"], ["par", "lon"]]])
def test_a_leaf_that_was_copied_to_is_not_left_by_the_file(tree: Any) -> None:
    """What others have of the source came through it, so nobody else's ledger tells: everything would come twice."""
    check_source_agrees(link([["ams", "fra"], ["lon", "par"]]), None, "lon")
    with pytest.raises(PlanRefused, match=r"flights\.ams\.2 copied to lon until now .*would come once more") as refused:
        check_source_agrees(link(tree), None, "lon")
    assert "isthmus tree remove" in refused.value.hint


def test_a_leaf_that_was_left_in_good_order_may_be_gone() -> None:
    """Then it was chosen where the next one begins; what is stated may still be of the one before."""
    for tree in ([["ams", "fra"], "par"], [["ams", "fra"], ["lon", "par"]]):
        for stated in ("", "lon", "par"):
            check_source_agrees(link(tree, OVER), OVER, stated)
    with pytest.raises(PlanRefused, match=NEWER):
        check_source_agrees(link([["ams", "fra"], ["lon", "par"]]), OVER, "par")


def test_a_leaf_that_gets_what_it_lacks_is_not_the_one_of_which_is_stated() -> None:
    """The target is stated still, and goes on once that is done."""
    allowed = Allowance(X, ID, 0, 5, 9)
    left = TargetChoice(target="lon", wanted="lon").ask_for("par", is_forced=True).leave([allowed], {(X, 0): LeftAt(8)})
    back = left.going_back("lon")
    check_source_agrees(link([["ams", "fra"], ["lon", "par"]], back), back, "par")
