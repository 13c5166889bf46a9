"""How much of its time a worker works."""

from __future__ import annotations

import asyncio
import time

import pytest

from isthmus.spark.leases.workload import WatchedSelector, Workload


def test_nothing_is_told_of_the_first_seconds() -> None:
    """A lease that begins has more to do than later."""
    load = Workload()
    assert (load.busy, load.records_per_s) == (-1.0, -1.0)
    for second in range(4):
        load.note(100.0 + second, waited_s=0.0, cpu_s=second, records=10 * second)
        assert (load.busy, load.records_per_s) == (-1.0, -1.0)
    load.note(104.0, waited_s=0.0, cpu_s=4.0, records=40)
    assert (load.busy, load.records_per_s) == (1.0, 10.0)


def test_the_last_seconds_count() -> None:
    """A worker that rests is soon not busy, and one that works again is one soon."""
    load = Workload()
    waited_s = records = 0.0
    for second in range(60):
        is_resting = 20 <= second < 40
        waited_s += 1.0 if is_resting else 0.25
        records += 0 if is_resting else 5
        load.note(float(second), waited_s=waited_s, cpu_s=0.0, records=int(records))
        if second == 19:
            assert (load.busy, load.records_per_s) == (0.75, 5.0)
        elif second == 39:
            assert (load.busy, load.records_per_s) == (0.0, 0.0)
    assert (load.busy, load.records_per_s) == (0.75, 5.0)


@pytest.mark.parametrize(
    ("waited_s", "cpu_s", "busy"),
    # A host that gives it too little; threads beside the loop; clocks that do not agree; two threads.
    [(0.0, 1.0, 1.0), (9.0, 6.0, 0.6), (10.5, 0.0, 0.0), (9.0, 19.0, 1.0)],
)
def test_what_keeps_a_worker_from_more_counts(waited_s: float, cpu_s: float, busy: float) -> None:
    """Its loop never waits, or its threads compute."""
    load = Workload()
    load.note(0.0, waited_s=0.0, cpu_s=0.0, records=0)
    load.note(10.0, waited_s=waited_s, cpu_s=cpu_s, records=0)
    assert load.busy == busy


def test_an_event_loop_that_waits_is_watched() -> None:
    """Sleeping is waiting, and computing is none."""
    watched = WatchedSelector()

    async def scenario() -> None:
        before = watched.waited_s
        await asyncio.sleep(0.05)
        assert watched.waited_s - before >= 0.04
        before, until = watched.waited_s, time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        await asyncio.sleep(0)
        assert watched.waited_s - before < 0.04

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(watched)) as runner:
        runner.run(scenario())
