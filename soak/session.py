"""One run: two clusters, a mirror, what goes on at the source, faults, and the judge's verdict; or a tree's."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from soak.acting import Acting
from soak.changed.session import perform_changed
from soak.cutover import Cutover
from soak.faults.catalogue import CHANGING, TREE
from soak.findings import leaks, replicas_of, rereads, tracebacks
from soak.history import History, read_history
from soak.judge.cutover import i23_cutover
from soak.judge.evidence import Lane, PartitionKey, Violation
from soak.judge.healing import QUARANTINE_PREFIX, Logs, i24_nothing_nowhere
from soak.judge.reading import Ruler, read_logs, topic_shapes
from soak.judge.settings import Shapes, i19_convergence
from soak.judge.tee import Tee
from soak.judge.timeline import Sufferings
from soak.judge.trial import collect, judged, noted
from soak.mirrors.isthmus import LINK, Isthmus, link_document
from soak.mirrors.mirror import Mirror, Supervisor
from soak.mirrors.mirrormaker import MirrorMaker
from soak.run import Note, Outcome, Run
from soak.scene import Scene
from soak.side import Side, sides
from soak.spies import GroupSpy, StatusSpy
from soak.trees.session import perform_tree
from soak.victims import Victims
from soak.watch import Stillness, Watch, highs
from soak.workloads.load import Load

_BEGIN_S: Final = 600.0
_RECOVER_S: Final = 240.0
_QUIET_S: Final = 240.0
"""When nothing has been copied for so long, nothing more is waited for."""
_ENDED_S: Final = 1800.0
_CARRIED_S: Final = 120.0
_ALIKE_S: Final = 240.0
_STILL_S: Final = 40.0
_SHOWN_S: Final = 300.0
_STOP_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class _Stage:
    """Everything a run is made of, once its clusters are there."""

    run: Run
    scene: Scene
    load: Load
    tee: Tee
    group_spy: GroupSpy
    status_spy: StatusSpy | None
    cutover: Cutover | None
    note: Note

    @property
    def history(self) -> History:
        return self.scene.history

    @property
    def records(self) -> int:
        apart = 0 if self.cutover is None else self.cutover.records
        return self.load.records + self.scene.victims.records + apart


def perform(run: Run, note: Note) -> Outcome:
    """Do a run and judge it; `note` hears what is going on.

    :raises IsthmusError: The clusters could not be started.
    :raises TimeoutError: The mirror never began.
    """
    if run.contender in TREE:
        return perform_tree(run, note)
    if run.contender in CHANGING:
        return perform_changed(run, note)
    begun = time.monotonic()
    with History(run.history) as history, ExitStack() as stack:
        history.tell("run", **run.as_dict())
        note("starting two clusters of three brokers")
        properties = {"source": run.conditions.source_properties(), "target": run.conditions.target_properties()}
        clusters = sides(run.folder, properties, seed=run.seed, target_names=run.conditions.names)
        stage = _stage(run, history, *stack.enter_context(clusters), note)
        acting = Acting(stage.scene)
        with _at_work(stage):
            with stage.load.flowing(), stage.scene.victims.writing(), _apart(stage):
                note("waiting for the mirror to begin")
                stage.scene.until(lambda: _has_begun(stage), "the mirror copies", term_s=_BEGIN_S)
                _act(stage, acting)
            history.tell("load", phase="over", records=stage.records)
            _quieten(stage)
            if stage.cutover is not None:
                note(f"link cutover: {run.conditions.cutover}")
                stage.cutover.perform(stage.scene)
        note("judging")
        lanes, violations = _judge(stage)
        notes = [*acting.notes(), *noted(read_history(run.history), lanes)]
        history.tell("verdict", violations=[str(violation) for violation in violations], notes=notes)
    return Outcome(
        run=run,
        records=stage.records,
        copied=sum(len(lane.target.records) for lane in lanes),
        faults=dict(acting.done),
        violations=violations,
        seconds=time.monotonic() - begun,
        notes=tuple(notes),
    )


def _apart(stage: _Stage) -> AbstractContextManager[None]:
    """What is written for the link that ends in a cutover."""
    return nullcontext() if stage.cutover is None else stage.cutover.writing()


def _stage(run: Run, history: History, source: Side, target: Side, note: Note) -> _Stage:
    watch = Watch(source, target, history)
    load = Load(
        source,
        history,
        run.seed,
        lambda: {key: e.high for key, e in watch.newest["source"].items()},
        shared_with=target if run.conditions.is_mapped else None,
    )
    mirror: Mirror
    if run.contender == "isthmus":
        mirror = Isthmus(run.folder, link_document(source, target, run.conditions), is_mapped=run.conditions.is_mapped)
    else:
        mirror = MirrorMaker(run.folder, source, target, is_exactly_once=run.contender == "mm2-eos")
    cutover = None
    if isinstance(mirror, Isthmus) and run.conditions.cutover is not None:
        cutover = Cutover(source, target, mirror, history, run.conditions.cutover)
        cutover.prepare()
    # Last of all that may fail: from here on others write to a target that is mapped.
    load.prepare()
    scene = Scene(
        source=source,
        target=target,
        supervisor=Supervisor(mirror, history),
        history=history,
        watch=watch,
        conditions=run.conditions,
        victims=Victims(source, history),
        topics=load.topics,
    )
    return _Stage(
        run=run,
        scene=scene,
        load=load,
        tee=Tee(target.servers, target.names),
        group_spy=GroupSpy(load.groups, load.read, source, target, history),
        status_spy=StatusSpy(mirror, history, target.names) if isinstance(mirror, Isthmus) else None,
        cutover=cutover,
        note=note,
    )


@contextmanager
def _at_work(stage: _Stage) -> Iterator[None]:
    """The mirror runs, and everybody looks."""
    with ExitStack() as stack:
        for looking in (stage.scene.watch.looking(), stage.tee.reading(), stage.group_spy.looking()):
            stack.enter_context(looking)
        if stage.status_spy is not None:
            stack.enter_context(stage.status_spy.looking())
        stack.enter_context(stage.scene.supervisor.keeping(_STOP_S))
        try:
            yield
        finally:
            stage.scene.over.set()


def _act(stage: _Stage, acting: Acting) -> None:
    """Do bout after bout until the time is over; between them everything recovers."""
    until = time.monotonic() + stage.run.minutes * 60
    for number, bout in enumerate(stage.run.schedule.bouts, start=1):
        if time.monotonic() > until and not stage.run.is_whole:
            break
        stage.note(f"bout {number}: {', '.join(action.fault for action in bout)}")
        stage.history.tell("bout", number=number, phase="begin")
        acting.act(bout, until=math.inf if stage.run.is_whole else until)
        for side in (stage.scene.source, stage.scene.target):
            side.restore()
        stage.history.tell("bout", number=number, phase="healed")
        stage.note(f"bout {number}: everything is whole again, recovering")
        _recover(stage)
        stage.history.tell("bout", number=number, phase="end")
    while time.monotonic() < until:
        time.sleep(0.5)


def _has_begun(stage: _Stage) -> bool:
    there = stage.scene.watch.newest["target"]
    return any(ends.high for (topic, _), ends in there.items() if topic not in stage.load.shared)


def _recover(stage: _Stage) -> None:
    """Wait until the target has what the source held when everything was whole again, or for long enough."""
    scene, marks, before = stage.scene, dict[PartitionKey, int](), dict[PartitionKey, int]()
    sufferings = Sufferings(read_history(stage.run.history))

    def is_measured() -> bool:
        newest = scene.watch.newest["source"]
        marks.update({key: ends.stable for key, ends in newest.items() if not sufferings.may_stop(key[0])})
        return bool(marks)

    def has_recovered() -> bool:
        there = scene.watch.newest["target"]
        if not scene.supervisor.mirror.keeps_offsets:
            # Who keeps no offsets has recovered when everything has moved.
            return all(key in there and there[key].high > before.get(key, 0) for key in marks)
        return all(key in there and there[key].high >= mark for key, mark in marks.items())

    try:
        scene.until(is_measured, "the source answers", term_s=_RECOVER_S)
        before.update({key: ends.high for key, ends in scene.watch.newest["target"].items()})
        scene.until(has_recovered, "the target has what the source had", term_s=_RECOVER_S)
    except TimeoutError as error:
        scene.history.tell("recovery", problem=str(error))


def _quieten(stage: _Stage) -> None:
    """Wait until nothing is left to copy, or for long enough; whether it was, the judge finds out himself."""
    scene, stillness = stage.scene, Stillness(_STILL_S)
    sufferings = Sufferings(read_history(stage.run.history))

    def is_quiet() -> bool:
        here, there = scene.watch.newest["source"], scene.watch.newest["target"]
        wanted = {key: ends for key, ends in here.items() if not sufferings.may_stop(key[0])}
        if not wanted:
            return False
        if not scene.supervisor.mirror.keeps_offsets:
            is_still = all(ends.stable == ends.high for ends in wanted.values()) and stillness.lasts(highs(there))
            return is_still and _says_so(stage, wanted)
        left = sum(max(ends.high - (there[key].high if key in there else 0), 0) for key, ends in wanted.items())
        stage.note(f"everything ends: {left} records left to copy")
        return left == 0 and all(ends.stable == ends.high for ends in wanted.values())

    moving, carried = Stillness(_QUIET_S), Stillness(_STILL_S)

    def is_over() -> bool:
        # On a busy machine it takes as long as it takes: what matters is that it goes on.
        return is_quiet() or moving.lasts(highs(scene.watch.newest["target"]))

    try:
        scene.until(is_over, "everything is copied", term_s=_ENDED_S)
        scene.history.tell("phase", name="quiet" if is_quiet() else "restless")
        scene.until(lambda: _are_carried(stage, carried), "the groups are carried", term_s=_CARRIED_S)
    except TimeoutError as error:
        scene.history.tell("phase", name="restless", problem=str(error))
    if stage.status_spy is not None:
        with suppress(TimeoutError):
            scene.until(lambda: _agree(stage), "topics are alike", term_s=_ALIKE_S)
        with suppress(TimeoutError):
            scene.until(stage.status_spy.look, "the status is shown", term_s=_SHOWN_S)
            # What a controller says of groups it says every few seconds; whether it is true, the judge finds out.
            scene.until(lambda: _stand_in_step(stage), "groups are called IN_STEP", term_s=_CARRIED_S)


def _says_so(stage: _Stage, wanted: Iterable[PartitionKey]) -> bool:
    """Whether a mirror that says what is left says that nothing is: when to judge, not by what."""
    if stage.status_spy is None:
        return True
    told = stage.status_spy.look()
    left = {(row["topic"], row["partition"]): row["lag"] for row in told["partitions"]} if told else {}
    return all(left.get(key) == 0 for key in wanted)


def _stand_in_step(stage: _Stage) -> bool:
    told = stage.status_spy.look() if stage.status_spy is not None else None
    standings = {row["group"]: row["standing"] for row in told["groups"]} if told else {}
    return all(standings.get(group) == "IN_STEP" for group in stage.load.groups)


def _are_carried(stage: _Stage, stillness: Stillness) -> bool:
    """Whether groups stand where they do at the source, or move no more where offsets tell nothing."""
    here, there = stage.group_spy.look(final=True)
    if not stage.scene.supervisor.mirror.keeps_offsets:
        return stillness.lasts(there)
    return here.keys() == there.keys() and all(
        there[group].get(key) == offset for group, each in here.items() for key, offset in each.items()
    )


def _judge(stage: _Stage) -> tuple[tuple[Lane, ...], tuple[Violation, ...]]:
    scene, run = stage.scene, stage.run
    mirror = scene.supervisor.mirror
    lanes = collect(
        scene.source.servers,
        scene.target.servers,
        scene.target.names,
        read_history(run.history),
        keeps_offsets=mirror.keeps_offsets,
        is_mapped=mirror.is_mapped,
        may_lack_aborted=scene.conditions.target_verifies or mirror.is_mapped,
        is_whole=mirror.keeps_offsets and not scene.conditions.target_verifies,
        compacted=stage.load.compacted,
        link=LINK,
    )
    for lane in lanes:
        rereads(stage.tee, lane, scene.history)
    leaks(run.folder, [*scene.source.secrets, *scene.target.secrets], scene.history)
    tracebacks(run.folder, scene.history)
    replicas = replicas_of(scene.target)
    violations = judged(read_history(run.history), lanes, replicas, _shapes(stage))
    if stage.cutover is not None:
        violations += tuple(i23_cutover(tuple(read_history(run.history)), *stage.cutover.logs()))
    violations += tuple(_held(stage))
    return lanes, violations


def _held(stage: _Stage) -> Iterator[Violation]:
    """What became of the records that only a target had."""
    events = tuple(read_history(stage.run.history))
    wanted = {(event["topic"], event["partition"]) for event in events if event["kind"] == "held"}
    source, target = stage.scene.source.servers, stage.scene.target.servers
    yield from i24_nothing_nowhere(
        events, _logs(source, wanted), _logs(target, wanted), _logs(target, wanted, QUARANTINE_PREFIX)
    )


def _logs(servers: str, keys: Iterable[PartitionKey], prefix: str = "") -> Logs:
    """The logs of those partitions that are there, by their names without the prefix."""
    there = Ruler(servers).ends([(prefix + topic, partition) for topic, partition in keys])
    return {(name.removeprefix(prefix), number): log for (name, number), log in read_logs(servers, there).items()}


def _shapes(stage: _Stage) -> tuple[Shapes, Shapes]:
    """How topics are at both sides, where the mirror is to keep them alike."""
    if stage.status_spy is None:
        return {}, {}
    source, target = stage.scene.source, stage.scene.target
    return topic_shapes(source.servers), topic_shapes(target.servers, target.names)


def _agree(stage: _Stage) -> bool:
    """Whether topics are alike by now: when to judge, not by what."""
    sufferings = Sufferings(read_history(stage.run.history))
    try:
        return not list(i19_convergence(*_shapes(stage), sufferings))
    except KafkaException:
        return False
