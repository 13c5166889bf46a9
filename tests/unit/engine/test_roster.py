"""The lanes of an engine against a model: no run is lost sight of before its requests are answered or inherited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.engine.roster import Roster
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic

KEYS = [LaneKey(TargetTopic("t"), number) for number in range(3)]


class Changing(RuleBasedStateMachine):
    """Lanes that come, write, end and come again. `entered` are the runs of each key, the present one last."""

    def __init__(self) -> None:
        super().__init__()
        self.roster = Roster()
        self.entered: dict[LaneKey, list[Any]] = {key: [] for key in KEYS}

    @rule(key=st.sampled_from(KEYS), is_writing=st.booleans())
    def enter(self, key: LaneKey, is_writing: bool) -> None:
        """A lane begins, perhaps once more."""
        writer = SimpleNamespace(abandoned=False)
        run: Any = SimpleNamespace(lane=SimpleNamespace(key=key), is_writing=is_writing, writer=writer)
        self.roster.enter(run)
        self.entered[key].append(run)

    @rule(key=st.sampled_from(KEYS), which=st.integers(0, 3), is_lost=st.booleans())
    def answer(self, key: LaneKey, which: int, is_lost: bool) -> None:
        """A request of some run is answered, or is given up."""
        for run in self.entered[key][which : which + 1]:
            run.is_writing, run.writer.abandoned = False, is_lost

    @rule(key=st.sampled_from(KEYS))
    def inherit(self, key: LaneKey) -> None:
        """The present run knows how the former ones have left the lane."""
        if (run := self.roster.get(key)) is not None:
            assert self.roster.leave_former(run) == self.entered[key][:-1]
            self.entered[key] = [run]

    @invariant()
    def nothing_is_lost(self) -> None:
        """The present runs are the last of their keys, and those before them count until they are inherited from."""
        runs = [run for each in self.entered.values() for run in each]
        assert sorted(map(id, self.roster.list_all())) == sorted(map(id, runs))
        assert {id(run) for run in self.roster} == {id(each[-1]) for each in self.entered.values() if each}
        assert self.roster.is_clean == (not any(run.is_writing or run.writer.abandoned for run in runs))
        for key, each in self.entered.items():
            assert self.roster.get(key) is (each[-1] if each else None)
            if each:
                assert self.roster.is_alone(each[-1]) == (not any(run.is_writing for run in each[:-1]))


TestChanging = Changing.TestCase


def _roster_of(run: Any) -> Roster:
    roster = Roster()
    roster.enter(run)
    return roster


def test_only_a_lane_that_is_over_has_a_last_word() -> None:
    """One that came back to its lease, while that had it come to rest, sends more behind its place."""

    def lane(*, is_over: bool, is_writing: bool = False, is_untold: bool = False, is_final: bool = True) -> Any:
        return SimpleNamespace(
            lane=SimpleNamespace(key=KEYS[0]),
            is_over=is_over,
            is_writing=is_writing,
            writer=SimpleNamespace(is_untold=is_untold),
            transit=SimpleNamespace(is_final=is_final),
        )

    assert _roster_of(lane(is_over=True)).find_final([KEYS[0]]) == {KEYS[0]}
    for each in (
        lane(is_over=False),
        lane(is_over=True, is_writing=True),
        lane(is_over=True, is_untold=True),
        lane(is_over=True, is_final=False),
    ):
        assert not _roster_of(each).find_final([KEYS[0]])
