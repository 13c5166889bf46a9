"""One run: two clusters, a mirror, what goes on at the source, faults, and the judge's verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from soak.acting import Acting
from soak.conditions import Conditions
from soak.history import History, read_history
from soak.judge.evidence import PartitionKey, Violation
from soak.judge.trial import collect, judged
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.mirror import Mirror, Supervisor
from soak.scene import Scene
from soak.schedule import Schedule
from soak.side import Side, sides
from soak.victims import Victims
from soak.watch import Watch
from soak.workloads.load import PREFIX, Load

_BEGIN_S: Final = 600.0
_RECOVER_S: Final = 240.0
_QUIET_S: Final = 420.0
_STOP_S: Final = 60.0
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be done. The folder is the run's own."""

    seed: int
    minutes: float
    contender: str
    schedule: Schedule
    conditions: Conditions
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. `faults` counts by row what was done, `records` what the source has acknowledged."""

    run: Run
    records: int
    copied: int
    faults: dict[int, int]
    violations: tuple[Violation, ...]
    seconds: float
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """One line of the results."""
        return {
            "seed": self.run.seed,
            "minutes": self.run.minutes,
            "contender": self.run.contender,
            "faults": {str(row): count for row, count in sorted(self.faults.items())},
            "records": self.records,
            "copied": self.copied,
            "seconds": round(self.seconds),
            "conditions": self.run.conditions.as_dict(),
            "violations": [str(violation) for violation in self.violations],
            "notes": list(self.notes),
        }


def perform(run: Run, note: Note) -> Outcome:
    """Do a run and judge it; `note` hears what is going on.

    :raises IsthmusError: The clusters could not be started.
    """
    begun = time.monotonic()
    file = run.folder / "history.jsonl"
    with History(file) as history, ExitStack() as stack:
        history.tell(
            "run",
            seed=run.seed,
            minutes=run.minutes,
            contender=run.contender,
            conditions=run.conditions.as_dict(),
            schedule=run.schedule.to_json(),
        )
        note("starting two clusters of three brokers")
        properties = {"source": run.conditions.source_properties(), "target": run.conditions.target_properties()}
        source, target = stack.enter_context(sides(run.folder, properties, seed=run.seed))
        mirror = _mirror(run, source, target)
        load = Load(source, history, run.seed)
        load.prepare()
        watch = Watch(source.servers, target.servers, history, (PREFIX,))
        supervisor = Supervisor(mirror, history)
        victims = Victims(source.servers, history, PREFIX)
        scene = Scene(
            source=source,
            target=target,
            supervisor=supervisor,
            history=history,
            watch=watch,
            conditions=run.conditions,
            victims=victims,
            topics=load.topics,
        )
        acting = Acting(scene)
        with watch.looking(), supervisor.keeping(_STOP_S):
            with load.flowing(), victims.writing():
                note("waiting for the mirror to begin")
                scene.until(lambda: _has_begun(watch), "the mirror copies", term_s=_BEGIN_S)
                _act(run, scene, acting, note)
            history.tell("load", phase="over", records=load.records)
            note("waiting until everything is copied")
            _quieten(scene, note)
        history.tell("phase", name="judging")
        note("judging")
        lanes = collect(
            source.servers, target.servers, (PREFIX,), read_history(file), keeps_offsets=mirror.keeps_offsets
        )
        verdict = judged(read_history(file), lanes)
        history.tell("verdict", violations=[str(violation) for violation in verdict])
    return Outcome(
        run=run,
        records=load.records,
        copied=sum(len(lane.target.records) for lane in lanes),
        faults=dict(acting.done),
        violations=verdict,
        seconds=time.monotonic() - begun,
    )


def _mirror(run: Run, source: Side, target: Side) -> Mirror:
    return Isthmus(run.folder, source, target, run.conditions, PREFIX)


def _act(run: Run, scene: Scene, acting: Acting, note: Note) -> None:
    """Do bout after bout until the time is over; between them everything recovers."""
    until = time.monotonic() + run.minutes * 60
    for number, bout in enumerate(run.schedule.bouts, start=1):
        if time.monotonic() > until:
            break
        note(f"bout {number}: {', '.join(action.fault for action in bout)}")
        scene.history.tell("bout", number=number, phase="begin")
        acting.act(bout)
        for side in (scene.source, scene.target):
            side.restore()
        scene.history.tell("bout", number=number, phase="healed", load=os.getloadavg()[0], processors=os.cpu_count())
        _recover(scene)
        scene.history.tell("bout", number=number, phase="end")
    while time.monotonic() < until:
        note("no more faults: copying")
        time.sleep(1.0)


def _has_begun(watch: Watch) -> bool:
    return any(ends.high for ends in watch.newest["target"].values())


def _recover(scene: Scene) -> None:
    """Wait until the target has what the source held when everything was whole again, or for long enough."""
    marks: dict[PartitionKey, int] = {}

    def is_measured() -> bool:
        marks.update({key: ends.stable for key, ends in scene.watch.newest["source"].items()})
        return bool(marks)

    def has_recovered() -> bool:
        there = scene.watch.newest["target"]
        return all(key in there and there[key].high >= mark for key, mark in marks.items())

    try:
        scene.until(is_measured, "the source answers", term_s=_RECOVER_S)
        scene.until(has_recovered, "the target has what the source had", term_s=_RECOVER_S)
    except TimeoutError as error:
        scene.history.tell("recovery", problem=str(error))


def _quieten(scene: Scene, note: Note) -> None:
    """Wait until nothing is left to copy, or for long enough; whether it was, the judge finds out himself."""

    def is_quiet() -> bool:
        here, there = scene.watch.newest["source"], scene.watch.newest["target"]
        if not here:
            return False
        left = sum(max(ends.high - (there[key].high if key in there else 0), 0) for key, ends in here.items())
        note(f"{left} records left to copy")
        return left == 0 and all(ends.stable == ends.high for ends in here.values())

    try:
        scene.until(is_quiet, "everything is copied", term_s=_QUIET_S)
        scene.history.tell("phase", name="quiet")
    except TimeoutError as error:
        scene.history.tell("phase", name="restless", problem=str(error))
