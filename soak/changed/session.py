"""One run of a link with transforms, or of a query into a sink: faults, and the verdict."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from soak.acting import Acting
from soak.changed.judge import Course, judged_changed
from soak.changed.rules import CHANGED, Row
from soak.changed.stage import Stage, row_of, stage_of
from soak.content import identity_of
from soak.findings import leaks, tracebacks
from soak.history import History, read_history
from soak.judge.evidence import Lane, Log, PartitionKey, Seen, Violation, fingerprint
from soak.judge.mapping import Pairing, Standing
from soak.judge.reading import Ends, Ruler, messages, read_documents, topic_ids
from soak.judge.stored import LEDGER, StoredMap, TopicIds, stored_maps
from soak.mirrors.isthmus import LINK, Isthmus
from soak.run import Note, Outcome, Run
from soak.side import Side, sides
from soak.spies import shown_when_quiet
from soak.watch import Stillness

_BEGIN_S: Final = 600.0
_QUIET_S: Final = 240.0
"""When nothing that is waited for has come for so long, nothing more is waited for: a busy machine takes its time."""
_ENDED_S: Final = 1800.0
_CARRIED_S: Final = 120.0
_STILL_S: Final = 20.0
_STOP_S: Final = 60.0
_LETTERS: Final = "__isthmus.dead-letters."


def perform_changed(run: Run, note: Note) -> Outcome:
    """Do a run and judge it; `note` hears what is going on.

    :raises IsthmusError: The clusters could not be started.
    :raises TimeoutError: Nothing was ever copied.
    """
    begun = time.monotonic()
    with History(run.history) as history:
        history.tell("run", **run.as_dict())
        note("starting two clusters of three brokers")
        properties = {"source": run.conditions.source_properties(), "target": run.conditions.target_properties()}
        with sides(run.folder, properties, seed=run.seed, target_names=run.conditions.names) as (source, target):
            stage = stage_of(run, history, source, target)
            acting = Acting(stage.scene)
            with stage.at_work(_STOP_S):
                with stage.writing():
                    note("waiting for records at the target")
                    stage.scene.until(lambda: stage.census.counts["target"], "anything is copied", term_s=_BEGIN_S)
                    _act(stage, acting, note)
                history.tell("load", phase="over", records=stage.records)
                _quieten(stage, note)
            note("judging")
            courses = read_courses(stage)
            violations = _judge(stage, courses)
        history.tell("verdict", violations=[str(violation) for violation in violations], notes=acting.notes())
    return Outcome(
        run=run,
        records=stage.records,
        copied=sum(len(course.target) for course in courses),
        faults=dict(acting.done),
        violations=violations,
        seconds=time.monotonic() - begun,
        notes=tuple(acting.notes()),
    )


def _act(stage: Stage, acting: Acting, note: Note) -> None:
    """Do bout after bout until the time is over; between them everything recovers."""
    run, scene = stage.run, stage.scene
    until = time.monotonic() + run.minutes * 60
    for number, bout in enumerate(run.schedule.bouts, start=1):
        if time.monotonic() > until and not run.is_whole:
            break
        note(f"bout {number}: {', '.join(action.fault for action in bout)}")
        stage.history.tell("bout", number=number, phase="begin")
        acting.act(bout, until=math.inf if run.is_whole else until)
        for side in (scene.source, scene.target):
            side.restore()
        stage.history.tell("bout", number=number, phase="healed", counts=stage.census.counts)
        note(f"bout {number}: everything is whole again, recovering")
        _recover(stage, set(stage.census.ids["source"]))
        stage.history.tell("bout", number=number, phase="end", counts=stage.census.counts)
    while time.monotonic() < until:
        time.sleep(0.5)


def _recover(stage: Stage, wanted: set[str]) -> None:
    """Wait until these records are at the target, or none of them has come for long enough."""
    moving = Stillness(_QUIET_S)

    def lacking() -> int:
        return len(wanted - stage.census.ids["target"])

    stage.scene.until(lambda: not lacking() or moving.lasts(lacking()), "recovery", term_s=_ENDED_S)
    if left := lacking():
        problem = f"nothing came for {_QUIET_S:g} s of what was wanted when everything was whole again: {left} records"
        stage.history.tell("recovery", problem=problem)


def _quieten(stage: Stage, note: Note) -> None:
    """Wait until all is copied and the link says so, or for long enough; the judge looks himself."""
    scene, still = stage.scene, Stillness(_STILL_S)

    def has_ended() -> bool:
        ends = [scene.watch.newest["source"].get(key) for key in stage.keys]
        is_stable = all(each is not None and each.stable == each.high for each in ends)
        return still.lasts(stage.census.counts["source"]) and is_stable

    note("everything ends")
    with suppress(TimeoutError):
        scene.until(has_ended, "nothing more comes to the source", term_s=_ENDED_S)
    _recover(stage, set(stage.census.ids["source"]))
    stage.history.tell("phase", name="quiet")
    mirror = scene.supervisor.mirror
    if isinstance(mirror, Isthmus):
        stage.history.tell("shown", links=shown_when_quiet(mirror))
    if stage.group_spy is not None:
        spy, carried = stage.group_spy, Stillness(_STILL_S)
        with suppress(TimeoutError):
            scene.until(lambda: carried.lasts(spy.look(final=True)), "groups are carried", term_s=_CARRIED_S)


def read_courses(stage: Stage) -> list[Course]:
    """Everything that was to be copied, what was, and what was kept as letters."""
    scene = stage.scene
    source, target = scene.source, scene.target
    here = _rows(source, {key: key for key in stage.keys})
    there = _rows(target, {(target.names.called(topic), number): (topic, number) for topic, number in stage.keys})
    ids, letters = {}, dict[PartitionKey, list[Row]]()
    if stage.run.contender == "transform":
        ids = topic_ids(source.servers)
        known = target.admin.list_topics(timeout=_CARRIED_S).topics
        named = {(f"{_LETTERS}{LINK}.{target.names.called(topic)}", n): (topic, n) for topic, n in stage.keys}
        letters = _rows(target, {name: key for name, key in named.items() if name[0] in known})
    ends = _ends(target, stage.keys)
    return [
        Course(
            topic=key[0],
            partition=key[1],
            source=here[key],
            target=there[key],
            letters=letters.get(key, []),
            topic_id=str(ids.get(key[0], "")),
            is_open=key in ends and ends[key].stable < ends[key].high,
        )
        for key in stage.keys
    ]


def _rows(side: Side, keys: dict[PartitionKey, PartitionKey]) -> dict[PartitionKey, list[Row]]:
    found = defaultdict[PartitionKey, list[Row]](list)
    for message in messages(side.servers, list(keys), "read_committed"):
        found[keys[message.topic() or "", message.partition() or 0]].append(row_of(message))
    return {key: found[key] for key in keys.values()}


def _ends(side: Side, keys: list[PartitionKey]) -> dict[PartitionKey, Ends]:
    return Ruler(side.servers, side.names).ends(keys)


def _judge(stage: Stage, courses: list[Course]) -> tuple[Violation, ...]:
    run, scene = stage.run, stage.scene
    leaks(run.folder, [*scene.source.secrets, *scene.target.secrets], scene.history)
    lanes: list[Lane] = []
    if run.contender == "transform":
        # What a query of Spark's says when it fails, it says with tracebacks.
        tracebacks(run.folder, scene.history)
        lanes = _lanes(stage, courses)
    return judged_changed(read_history(run.history), courses, stage.rules, lanes)


def _lanes(stage: Stage, courses: list[Course]) -> list[Lane]:
    """The same partitions as the judges of maps and groups know them."""
    source, target = stage.scene.source, stage.scene.target
    here, there = topic_ids(source.servers), topic_ids(target.servers, target.names)
    ids = {topic: TopicIds(here[topic], there[topic]) for topic in here.keys() & there.keys()}
    stored = stored_maps(read_documents(target.servers, LEDGER), LINK, target.names, ids)
    ends = (_ends(source, stage.keys), _ends(target, stage.keys))
    return [_lane(stage, course, stored, ends) for course in courses]


def _lane(
    stage: Stage,
    course: Course,
    stored: dict[PartitionKey, StoredMap],
    ends: tuple[dict[PartitionKey, Ends], dict[PartitionKey, Ends]],
) -> Lane:
    key, is_mapped = (course.topic, course.partition), course.topic in CHANGED
    rule = stage.rules(course.topic)
    kept = [row for row in course.source if isinstance(rule(row), Row)]
    source, target = (_log(rows, each[key]) for rows, each in zip((course.source, course.target), ends, strict=True))
    wanted = frozenset(row.offset for row in kept)
    pairing = Pairing(map(_standing, kept), map(_standing, course.target), visible=wanted, acked={}, end=source.high)
    source = Log(start=source.start, stable=source.stable, high=source.high, records=source.records, visible=wanted)
    return Lane(
        topic=course.topic,
        partition=course.partition,
        source=source,
        target=target,
        keeps_offsets=not is_mapped,
        pairing=pairing if is_mapped else None,
        stored=stored.get(key),
    )


def _standing(row: Row) -> Standing:
    return Standing(row.offset, identity_of(row.headers))


def _log(rows: Sequence[Row], ends: Ends) -> Log:
    records = tuple(
        Seen(
            offset=row.offset,
            id=identity_of(row.headers),
            content=fingerprint(*row.content),
            key=None if row.key is None else fingerprint(row.key),
            is_null=row.value is None,
            is_sound=True,
        )
        for row in rows
    )
    visible = frozenset(row.offset for row in rows)
    return Log(start=ends.start, stable=ends.stable, high=ends.high, records=records, visible=visible)
