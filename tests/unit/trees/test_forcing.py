"""What a process that runs a tree does about leaves that are gone, or back."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest

from isthmus import config
from isthmus.errors import ConfigError, PlanRefused
from isthmus.memory.declared import Declared
from isthmus.memory.switching import DistributorTarget, wish_for_leaf
from isthmus.model.naming import SourceTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from isthmus.model.trees.switching import Allowance, LaneBegin, LeftAt, TargetChoice
from isthmus.run.following import change_of
from isthmus.trees.forcing import AGAIN_S, BACK_S, GONE_S, TargetKeeper

FILE = {
    "clusters": {alias: {"bootstrap_servers": f"h:{number}"} for number, alias in enumerate("abcd", 1)},
    "trees": [{"name": "t", "clusters": [["a", "b"], ["c", "d"]], "topics": ["x"], "switch_after_s": 60}],
}
WRITTEN = config.parse(json.dumps(FILE))
EACH = WRITTEN.trees[0].tree.by_itself.distributor("a", 2, "d")
ID = uuid.UUID(int=4)
ALLOWED = (Allowance(SourceTopic("x"), ID, 0, 7, 30), Allowance(SourceTopic("x"), ID, 1, 5, 30))
LEFT = (
    TargetChoice(target="c", wanted="c")
    .ask_for("d", is_forced=True)
    .leave(ALLOWED, {(SourceTopic("x"), 0): LeftAt(12), (SourceTopic("x"), 1): LeftAt(5)})
)


class Keeper(TargetKeeper):
    """One that has seen clusters away for some time, and others there."""

    def __init__(self, now: float, **since: float) -> None:
        super().__init__()
        self.now = now
        for alias in "abcd":
            away = alias in since
            self._note(since.get(alias, 0.0), ("away" if away else "there", alias), holds=True)

    def due(self, choice: TargetChoice | None, after_s: float | None = None) -> TargetChoice | None:
        change = self._due(EACH, choice, self.now, after_s)
        return None if change is None else change(choice)


def test_the_next_leaf_begins_where_the_one_before_may_have_come_to() -> None:
    """Or where the log ended; only what was not acknowledged is in doubt, unless it is sent again."""
    assert (LEFT.target, LEFT.wanted, LEFT.is_forced, LEFT.former) == ("d", "d", False, ("c",))
    assert [(each.partition, each.offset) for each in LEFT.begins] == [(0, 12), (1, 5)]
    (doubt,) = LEFT.doubts
    assert [(lane.partition, lane.begin, lane.position, lane.end) for lane in doubt.lanes] == [(0, -1, 7, 12)]
    shown = DistributorTarget(distributor=EACH, target="d", wanted="d", by_itself="c", doubts=LEFT.doubts)
    assert plain(shown)["in_doubt"] == [{"leaf": "c", "state": "IN_DOUBT", "records_max": 5}]
    resent = (
        TargetChoice(target="c", wanted="c")
        .ask_for("d", is_forced=True, is_resent=True)
        .leave(ALLOWED, {(SourceTopic("x"), 0): LeftAt(12)})
    )
    assert ([each.offset for each in resent.begins], resent.doubts) == ([7, 5], ())


def test_a_leaf_that_is_back_gets_what_it_lacks() -> None:
    """Once it has been back for a while; and the distributor goes on without it when it is gone again."""
    assert Keeper(BACK_S - 1).due(LEFT) is None
    back = Keeper(BACK_S).due(LEFT)
    assert back == LEFT.going_back("c")
    assert Keeper(BACK_S, c=0.0).due(LEFT) is None
    assert Keeper(GONE_S - 1, c=0.0).due(back) is None
    assert Keeper(GONE_S, c=0.0).due(back) == replace(LEFT, serial=back.serial + 1)
    assert back.reconcile().doubts == ()


def test_a_leaf_that_cannot_take_what_it_lacks_is_tried_again_later() -> None:
    """Meanwhile its distributor goes on with its target; one that was away since is another matter."""
    keeper = Keeper(100.0)
    back = keeper.due(LEFT)
    assert back is not None
    assert keeper.due(back) is None
    kept = back.reconcile(back.doubts[0].ends)
    assert kept.doubts == LEFT.doubts
    keeper.now = 99.0 + AGAIN_S
    assert keeper.due(kept) is None
    keeper.now = 100.0 + AGAIN_S
    assert keeper.due(kept) == kept.going_back("c")
    keeper.now = 110.0
    keeper._note(101.0, ("there", "c"), holds=False)
    keeper._note(102.0, ("there", "c"), holds=True)
    assert keeper.due(kept) == kept.going_back("c")


def test_the_link_goes_back_with_an_end() -> None:
    """It is started anew at the leaf, and copies nothing from where the other one began; then it is as it was."""
    forced, back = (Declared(choices={("a", "t.a.2"): choice}).over(WRITTEN) for choice in (LEFT, LEFT.going_back("c")))
    link = back.link("t.a.2")
    assert (link.target.alias, "target" in change_of(forced.link("t.a.2"), link).waiting) == ("c", True)
    assert link.distributor is not None
    assert link.distributor.ends == (LaneBegin(SourceTopic("x"), ID, 0, 12),)
    assert link.distributor.begins == (LaneBegin(SourceTopic("x"), ID, 0, -1),)
    assert not link.distributor.has_allowance
    assert forced.link("t.a.2").distributor is not None
    assert back.trees[0].tree.hops("a")["c"] == 2, "what is new goes by the other leaf"


def test_a_tree_may_leave_a_target_by_itself() -> None:
    """Only where that is asked for, after that time, for a leaf that is there and lacks nothing."""
    assert WRITTEN.trees[0].switch_after_s == 60
    assert Keeper(100.0, c=0.0).due(None) is None
    assert Keeper(59.0, c=0.0).due(None, 60.0) is None
    assert Keeper(60.0, c=0.0).due(None, 60.0) == TargetChoice(target="c", wanted="d", is_forced=True)
    assert Keeper(60.0, c=0.0, d=50.0).due(None, 60.0) is None
    assert Keeper(60.0, d=0.0, c=0.0).due(LEFT, 60.0) is None, "the other one is in doubt"
    with pytest.raises(ConfigError, match="switch_after_s"):
        config.parse(json.dumps(FILE).replace('"switch_after_s": 60', '"switch_after_s": 5'))


def test_a_wish_may_be_forced_later() -> None:
    """A wish in good order that waits for a target that is gone; the same one once more does not take that back."""
    first = wish_for_leaf(EACH, "d", None)
    assert first is not None
    forced = wish_for_leaf(EACH, "d", first, is_forced=True)
    assert forced == first.ask_for("d", is_forced=True)
    assert wish_for_leaf(EACH, "d", forced) is None
    assert wish_for_leaf(EACH, "d", forced, is_forced=True) is None
    assert wish_for_leaf(EACH, "c", forced) == forced.ask_for("c")


def test_nobody_goes_over_to_a_leaf_that_is_in_doubt() -> None:
    """Whoever asks for it, and whatever was seen before: it would begin behind what it lacks, and never get that."""
    for is_forced in (False, True):
        with pytest.raises(PlanRefused, match="c is IN_DOUBT"):
            wish_for_leaf(EACH, "c", LEFT, is_forced=is_forced)


def test_what_was_seen_before_forces_nobody() -> None:
    """A process that stood still had seen a target that was gone; another one has been chosen since, and is there."""
    gone = TargetChoice(target="c", wanted="c", serial=3)
    change = Keeper(60.0, c=0.0)._due(EACH, gone, 60.0, 60.0)
    assert change is not None
    assert change(gone) == gone.ask_for("d", is_forced=True)
    assert change(replace(gone, target="d", wanted="d", serial=9)) is None
    assert change(None) is None
    first = Keeper(60.0, c=0.0)._due(EACH, None, 60.0, 60.0)
    assert first is not None
    assert first(gone) is None


def test_what_a_cluster_does_not_tell_is_not_made_up() -> None:
    """Of a distributor whose cluster is away nobody knows where it copies to."""
    shown = plain(DistributorTarget.unknown(EACH, Problem("a does not answer", "")))
    assert (shown["target"], shown["wanted"], shown["by_itself"]) == (None, None, "c")
    assert shown["problem"] is not None
    assert shown["problem"]["message"] == "a does not answer"


def test_a_cluster_that_did_not_answer_once_is_not_gone() -> None:
    """Time counts from when it was first not heard, and anew after it was."""
    keeper = Keeper(0.0)
    for now, is_away in ((0.0, True), (50.0, False), (55.0, True)):
        keeper._note(now, ("away", "c"), holds=is_away)
    assert keeper._held_s(60.0, "away", "c") == 5.0
    assert Declared(away={"c": Problem("no", "")}).is_there("c") is False
