"""Schedules of the soak follow from their seeds, survive being written down, and can be shortened."""

from __future__ import annotations

import inspect
import json
import random
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from soak.acting import Acting
from soak.conditions import Conditions
from soak.faults import FAULTS
from soak.faults.catalogue import CHANGING, Fault, Told
from soak.history import History
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.mirror import Supervisor
from soak.run import Run
from soak.scene import Setting
from soak.schedule import Action, Schedule, drawn, schedule_of
from soak.shrinking import run_of, shortest

ROWS = {*range(1, 30), 32, 33, 34, 40, 43, 44, 45, *range(49, 57)} - {27}
"""Row 27 is about checkpoints, of which mirrors keep none. From 50 on rows were added by what readers found."""
SCHEDULE = drawn(7, 20, FAULTS.values())


def test_the_same_seed_draws_the_same_schedule() -> None:
    """A schedule follows from its seed alone; another seed draws another."""
    assert drawn(7, 20, FAULTS.values()) == SCHEDULE
    assert drawn(8, 20, FAULTS.values()) != SCHEDULE


def test_all_rows_come_before_any_comes_again() -> None:
    """There is a fault for every row, and a long schedule holds all of them."""
    assert {fault.row for fault in FAULTS.values()} == ROWS
    assert {action.fault for action in drawn(7, 60, FAULTS.values()).actions} == set(FAULTS)


def test_faults_of_a_bout_do_not_get_into_each_others_way() -> None:
    """Up to three at a time, none of which claims what another one claims."""
    for bout in SCHEDULE.bouts:
        assert 1 <= len(bout) <= 3
        claims = [claim for action in bout for claim in FAULTS[action.fault].claims]
        assert len(claims) == len(set(claims)), bout


def test_faults_that_make_a_topic_are_for_mirrors() -> None:
    """A query copies no topic that it was not told of, and the judge of changed records knows nothing of others."""
    for fault in FAULTS.values():
        makes_one = "scene.victim(" in inspect.getsource(fault.act)
        assert not (makes_one and fault.mirrors & CHANGING), fault.name


def test_every_contender_has_faults_of_its_processes() -> None:
    """Drivers and workers of whatever runs on Spark are killed and frozen."""
    for contender in ("isthmus", "tree", "transform", "sink"):
        rows = {fault.row for fault in FAULTS.values() if contender in fault.mirrors}
        assert rows >= {21, 22, 23, 25, 26}, contender


@pytest.mark.parametrize("minutes", [1, 4, 40])
def test_no_fault_takes_more_than_a_part_of_a_run(minutes: int) -> None:
    """Cuts last from seconds to ten minutes, but never longer than a quarter of the run, unless all of them do."""
    for action in drawn(7, minutes, FAULTS.values()).actions:
        low, high = FAULTS[action.fault].lasts_s
        assert low <= action.lasts_s <= max(low, min(high, 15 * minutes)), action
    longest = max(action.lasts_s for seed in range(5) for action in drawn(seed, 40, FAULTS.values()).actions)
    assert longest > 300


def test_a_fault_is_undone_when_the_run_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever time it had left; without an end it would last for an hour here."""
    done: list[str] = []

    def forever(_scene: Setting, _chance: random.Random) -> Iterator[Told]:
        done.append("done")
        yield {}
        done.append("undone")

    endless = (3600.0, 3600.0)
    one = Fault(
        name="forever", row=1, describes="", act=forever, lasts_s=endless, claims=frozenset(), mirrors=frozenset()
    )
    monkeypatch.setitem(FAULTS, one.name, one)
    bout = (Action(number=0, fault="forever", row=1, after_s=3600.0, lasts_s=3600.0, seed=1),)
    with History(tmp_path / "history.jsonl") as history:
        mirror = Isthmus(tmp_path, {}, is_mapped=False)
        Acting(Setting(supervisor=Supervisor(mirror, history), history=history)).act(bout, until=time.monotonic())
    assert done == ["done", "undone"]


def test_a_schedule_is_read_back() -> None:
    """What was written down is what is read."""
    assert schedule_of(json.loads(SCHEDULE.to_json())) == SCHEDULE


def test_whatever_was_begun_is_tried_again(tmp_path: Path) -> None:
    """Also a fault that broke something and then failed; not one that could not be done, nor one that never came."""
    run = Run(seed=7, minutes=4, contender="isthmus", schedule=SCHEDULE, conditions=Conditions.of(7), folder=tmp_path)
    ends = {0: "undone", 1: "failed", 2: "skipped"}
    with History(run.history) as history:
        history.tell("run", **run.as_dict())
        for number, phase in ends.items():
            history.tell("fault", phase="begin", number=number)
            history.tell("fault", phase=phase, number=number)
        history.tell("verdict", violations=["I1 no loss t-0: 3 records"], notes=[])
    again, violated = run_of(run.history, tmp_path)
    assert {action.number for action in again.schedule.actions} == {0, 1}
    assert again.conditions == run.conditions
    assert violated == {"I1"}


@pytest.mark.parametrize("needed", [set(), {3}, {0, 9}, {2, 5, 11}])
def test_the_shortest_schedule_is_found(needed: Collection[int]) -> None:
    """Of all actions those are left that a violation needs, and no others."""
    tried: list[Schedule] = []

    def happens(schedule: Schedule) -> bool:
        tried.append(schedule)
        return {action.number for action in schedule.actions} >= set(needed)

    found = shortest(SCHEDULE, happens)
    assert {action.number for action in found.actions} == set(needed)
    assert len(tried) < 12 * len(needed) + 12
