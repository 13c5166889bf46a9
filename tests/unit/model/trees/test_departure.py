"""A cluster that is gone for good: who has to leave it, and how, and what goes with it."""

from __future__ import annotations

import uuid

import pytest

from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.trees.departure import remove_doubt, to_leave, without
from isthmus.model.trees.switching import Allowance, DoubtedLane, LaneBegin, LeafDoubt, LeftAt, TargetChoice
from isthmus.model.trees.tree import Tree, node_of
from isthmus.model.trees.treeloss import Undistributed, Unsent, loss_of

X = SourceTopic("x")
ID = uuid.UUID(int=4)
TREE = Tree(name="t", root=node_of([["a", "b"], ["c", "d", "e"]]))
A2, B2 = (TREE.distributor(alias, 2, "c") for alias in "ab")
DOUBT = LeafDoubt(leaf="d", lanes=(DoubtedLane(X, ID, 0, -1, 5, 9),))


def chosen(
    target: str,
    wanted: str = "",
    *,
    is_forced: bool = False,
    is_resent: bool = False,
    doubts: tuple[LeafDoubt, ...] = (),
    finishes: str = "",
) -> TargetChoice:
    return TargetChoice(
        target=target,
        wanted=wanted or target,
        is_forced=is_forced,
        is_resent=is_resent,
        doubts=doubts,
        finishes=finishes,
    )


def test_who_copies_to_a_cluster_that_is_gone_leaves_it_by_force() -> None:
    """For a leaf that is certain and there, with what may be missing; those that copy to it alone end, its own do."""
    assert to_leave(TREE, {}, "d") == ((B2, "c"),), "t.b.2 copies to d by itself"
    assert to_leave(TREE, {"t.b.2": chosen("c")}, "d") == ()
    assert to_leave(TREE, {"t.b.2": chosen("d", doubts=(LeafDoubt(leaf="c", lanes=()),))}, "d") == ((B2, "e"),)
    assert to_leave(TREE, {}, "d", gone=("c",)) == ((B2, "e"),)
    assert to_leave(TREE, {}, "d", gone=("c", "e")) == ((B2, "c"),), "that one is taken out next"
    assert to_leave(TREE, {}, "d", gone=("b",)) == (), "nobody can ask b"
    assert to_leave(TREE, {"t.b.2": chosen("d", "e")}, "d") == ((B2, "e"),), "where it goes already"
    told = chosen("d", "e", is_forced=True, is_resent=True)
    assert to_leave(TREE, {"t.b.2": told}, "d") == ((B2, "e"),), "it has been told, and is waited for"
    for waiting in (chosen("e", "d"), chosen("e", finishes="d")):
        assert to_leave(TREE, {"t.b.2": waiting}, "d") == ((B2, "e"),), "it stays where it is, and waits no more"


@pytest.mark.parametrize(
    ("known", "becomes"),
    [
        (None, ("d", "c", True, True, "")),
        (chosen("d"), ("d", "c", True, True, "")),
        (chosen("d", "c"), ("d", "c", True, True, "")),
        (chosen("d", "c", is_forced=True), ("d", "c", True, True, "")),
        (chosen("d", "c", is_resent=True), ("d", "c", True, True, "")),
        (chosen("d", "c", is_forced=True, is_resent=True), None),
        (chosen("d", "e", is_forced=True, is_resent=True), ("d", "c", True, True, "")),
        (chosen("e", "d"), ("e", "e", False, False, "")),
        (chosen("e", "d", is_forced=True), ("e", "e", False, False, "")),
        (chosen("e", "c"), ("e", "e", False, False, "")),
        (chosen("e", "c", is_forced=True), None),
        (chosen("e", doubts=(DOUBT,), finishes="d"), ("e", "e", False, False, "")),
        (chosen("e", doubts=(DOUBT,)), None),
        (chosen("c"), None),
    ],
)
def test_nothing_waits_for_a_cluster_that_is_gone(
    known: TargetChoice | None, becomes: tuple[object, ...] | None
) -> None:
    """Whatever was wanted of a distributor when the cluster went away; asked again nothing more becomes of it."""
    found = without(B2, "c", "d", known)
    told = found and (found.target, found.wanted, found.is_forced, found.is_resent, found.finishes)
    assert told == becomes
    if found is not None:
        assert without(B2, "c", "d", found) is None
        assert found.serial == (0 if known is None else known.serial) + 1


def test_what_may_not_have_come_is_sent_again() -> None:
    """By a distributor that leaves now: it begins where the cluster acknowledged last, and nothing is in doubt."""
    found = without(B2, "c", "d", None)
    assert found is not None
    left = found.leave([Allowance(X, ID, 0, 7, 90)], {(X, 0): LeftAt(50)})
    assert (left.target, left.begins, left.doubts) == ("c", (LaneBegin(X, ID, 0, 7),), ())
    assert to_leave(TREE, {"t.b.2": left}, "d") == ()


def test_nobody_waits_for_what_a_cluster_lacks_that_is_gone() -> None:
    """What other leaves lack they get still."""
    other = LeafDoubt(leaf="c", lanes=DOUBT.lanes)
    found = remove_doubt("d", chosen("e", doubts=(DOUBT, other)))
    assert found is not None
    assert (found.doubts, found.serial) == ((other,), 2)
    assert remove_doubt("d", found) is None
    assert remove_doubt("d", None) is None


def report(partition: int, position: int, end: int) -> LaneReport:
    return LaneReport(
        key=LaneKey(TargetTopic("x"), partition), state=LaneState.ACTIVE, position=position, source_end=end
    )


def seen(*reports: LaneReport) -> dict[LaneKey, LaneReport]:
    return {each.key: each for each in reports}


def test_what_is_lost_is_told_as_far_as_others_know_it() -> None:
    """What one of its distributors saw, all others were to copy; where one had several targets the last one counts."""
    reports = {
        "t.d.1": {"c": seen(report(0, 10, 12)), "e": seen()},
        "t.d.2": {"a": seen(report(0, 4, 4), report(1, 3, 3)), "b": seen(report(0, 7, 9))},
        "t.d.3": {"f": seen()},
    }
    found = loss_of(reports, {("t.a.2", "a"): DOUBT}, ["t.b.2"])
    topic = TargetTopic("x")
    assert found.undistributed == (
        Undistributed("t.d.1", "c", topic, 0, 10, 12),
        Undistributed("t.d.1", "", topic, 1, 0, 3),
        Undistributed("t.d.2", "b", topic, 0, 7, 12),
    )
    assert found.unsent == (Unsent("t.a.2", "a", X, 0, 5, 9),)
    assert (found.unknown, found.entrances) == (("t.d.3",), ("t.b.2",))
    told = list(found.sentences("d", "t"))
    assert told[1] == "t.d.1 had up to 5 records still to copy: x-0 from 10 to 12, x-1 from 0 to 3."
    assert "No cluster that answers knows how far these had come: t.d.3." in told
    assert any("d was IN_DOUBT of up to 4 records of t.a.2" in each and "x-0 from 5 to 9" in each for each in told)
    assert "What d had taken from t.b.2 and had not passed on is not sent again" in told[-1]
    nothing = loss_of({"t.d.1": {"c": seen(report(0, 12, 12))}}, {}, [])
    assert len([*nothing.sentences("d", "t")]) == 1
