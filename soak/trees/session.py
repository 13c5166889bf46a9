"""One run of a tree: four clusters, who writes on each, faults, and the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from soak.acting import Acting
from soak.census import Census
from soak.findings import leaks, tracebacks
from soak.history import History, read_history
from soak.judge.reading import read_logs
from soak.mirrors.isthmus import Isthmus
from soak.mirrors.mirror import Supervisor
from soak.run import Note, Outcome, Run
from soak.scene import create_topic
from soak.side import Side, leaves
from soak.spies import shown_when_quiet
from soak.trees.grove import HEADER, KEYS, LEAVES, PARTITIONS, PLAIN, TRANSACTIONS, Grove, Writers, tree_document
from soak.trees.judge import Forest, judged_tree
from soak.watch import Stillness

_BEGIN_S: Final = 600.0
_QUIET_S: Final = 240.0
"""When nothing that is waited for has come for so long, nothing more is waited for: a busy machine takes its time."""
_ENDED_S: Final = 1800.0
_STOP_S: Final = 60.0


def perform_tree(run: Run, note: Note) -> Outcome:
    """Do a run of a tree and judge it; `note` hears what is going on.

    :raises IsthmusError: The clusters could not be started.
    :raises TimeoutError: The tree never began.
    """
    begun = time.monotonic()
    with History(run.history) as history, ExitStack() as stack:
        history.tell("run", **run.as_dict())
        note("starting four clusters")
        properties = {**run.conditions.source_properties(), **run.conditions.target_properties()}
        grown = stack.enter_context(leaves(run.folder, LEAVES, properties, seed=run.seed))
        grove = _grove(run, grown, history)
        writers, acting = Writers(grown, history, run.seed), Acting(grove)
        with _at_work(grove):
            with writers.writing():
                note("waiting for the tree to begin")
                grove.until(grove.census.has_met, "every cluster has messages of every other one", term_s=_BEGIN_S)
                _act(run, grove, acting, note)
            history.tell("load", phase="over", records=writers.records)
            _quieten(grove, note)
        note("judging")
        forest = _forest(run, grown)
        for leaf in grown:
            leaks(run.folder, leaf.secrets, history)
        tracebacks(run.folder, history)
        violations = judged_tree(read_history(run.history), forest)
        history.tell("verdict", violations=[str(violation) for violation in violations], notes=acting.notes())
    return Outcome(
        run=run,
        records=writers.records,
        copied=sum(len(log.visible) for logs in forest.values() for log in logs.values()),
        faults=dict(acting.done),
        violations=violations,
        seconds=time.monotonic() - begun,
        notes=tuple(acting.notes()),
    )


def _grove(run: Run, grown: list[Side], history: History) -> Grove:
    for leaf in grown:
        for topic in (PLAIN, TRANSACTIONS):
            create_topic(leaf, topic, partitions=PARTITIONS)
    mirror = Isthmus(run.folder, tree_document(grown, run.conditions), is_mapped=True)
    return Grove(supervisor=Supervisor(mirror, history), history=history, leaves=grown, census=Census(grown, KEYS))


@contextmanager
def _at_work(grove: Grove) -> Iterator[None]:
    with grove.census.counting(), grove.supervisor.keeping(_STOP_S):
        try:
            yield
        finally:
            grove.over.set()


def _act(run: Run, grove: Grove, acting: Acting, note: Note) -> None:
    """Do bout after bout until the time is over; between them everything recovers."""
    until = time.monotonic() + run.minutes * 60
    for number, bout in enumerate(run.schedule.bouts, start=1):
        if time.monotonic() > until and not run.is_whole:
            break
        note(f"bout {number}: {', '.join(action.fault for action in bout)}")
        grove.history.tell("bout", number=number, phase="begin")
        acting.act(bout, until=math.inf if run.is_whole else until)
        for leaf in grove.leaves:
            leaf.restore()
        grove.history.tell("bout", number=number, phase="healed", counts=grove.census.counts)
        note(f"bout {number}: everything is whole again, recovering")
        _recover(grove)
        grove.history.tell("bout", number=number, phase="end", counts=grove.census.counts)
    while time.monotonic() < until:
        time.sleep(0.5)


def _recover(grove: Grove) -> None:
    """Wait until every cluster has what any had when everything was whole again, or none gets any of it."""
    wanted, moving = grove.census.seen_anywhere(), Stillness(_QUIET_S)

    def lacking() -> dict[str, int]:
        return {leaf: len(wanted - ids) for leaf, ids in grove.census.ids.items()}

    grove.until(lambda: not any(lacking().values()) or moving.lasts(lacking()), "recovery", term_s=_ENDED_S)
    if left := {leaf: count for leaf, count in lacking().items() if count}:
        problem = f"nothing came for {_QUIET_S:g} s of what others had when everything was whole again: {left}"
        grove.history.tell("recovery", problem=problem)


def _quieten(grove: Grove, note: Note) -> None:
    """Wait until all clusters have the same and the distributors say so, or for long enough; the judge
    looks himself.
    """
    moving = Stillness(_QUIET_S)

    def is_over() -> bool:
        counts = grove.census.counts
        note(f"everything ends: {max(counts.values()) * len(counts) - sum(counts.values())} messages left to copy")
        return len(set(counts.values())) == 1 or moving.lasts(counts)

    grove.until(is_over, "everything is copied", term_s=_ENDED_S)
    grove.history.tell("shown", links=shown_when_quiet(grove.supervisor.mirror))


def _forest(run: Run, grown: list[Side]) -> Forest:
    without = HEADER if run.conditions.flags == "header" else ""
    return {leaf.name: read_logs(leaf.servers, KEYS, without=without) for leaf in grown}
