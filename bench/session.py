"""A whole run: all cases on the same two brokers, contenders in turn, several times."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.cases import OTHER, Case, CopyCase, IdleCase, LatencyCase, PairCase, TreeCase
from bench.contenders import Ceiling, Contender, Isthmus, IsthmusTree, MirrorMaker, OtherIsthmus
from bench.copying import CopyFailed, copy_once
from bench.eight import Eight, kept_alike
from bench.figures import Figures
from bench.idle import idle_cost_of
from bench.latency import latency_of
from bench.pouring import Pour
from bench.rig import Rig
from isthmus.errors import InvariantError, IsthmusError
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import FetchSession, Want
from isthmus.model.cluster import Cluster

GROUP: Final = "bench-readers"
"""It has committed the middle of every partition where checkpoints are written."""
CONTENDERS: Mapping[str, Contender] = {
    "isthmus": Isthmus(),
    "isthmus-mapped": Isthmus("isthmus-mapped", topics={"offsets": "mapped"}),
    "isthmus-prefix": Isthmus(
        "isthmus-prefix",
        prefix="copy-of-",
        topics={"naming": {"source_prefix": "bench-", "target_prefix": "copy-of-"}},
    ),
    # Positions that are told again and again, of a group that is there.
    "isthmus-mm2": Isthmus(
        "isthmus-mm2",
        more={
            "groups": {"include": [GROUP]},
            "mm2": {"heartbeats": True, "checkpoints": True, "checkpoints_interval_s": 1.0, "offset_syncs": "target"},
        },
    ),
    "isthmus-16-links": Isthmus("isthmus-16-links", is_split=True),
    # Records in cases of latency are no JSON: there the pattern of the function meets nothing.
    "isthmus-function": Isthmus("isthmus-function", more={"transform": {"python": "bench.masking:mask_tail_numbers"}}),
    "isthmus-expressions": Isthmus(
        "isthmus-expressions",
        more={
            "transform": [
                {"topics": ["bench-latency*"], "set": {"headers.length": "string(length(value))"}},
                {"decode": {"value": "json"}, "set": {"value.tailnum": "sha2(value.tailnum, 256)"}},
            ]
        },
    ),
    "isthmus-tree": IsthmusTree("isthmus-tree", flags="producer-id"),
    "isthmus-tree-header": IsthmusTree("isthmus-tree-header", flags="header"),
    "mm2-tuned": MirrorMaker(tuned=True),
    "mm2-default": MirrorMaker(tuned=False),
    "ceiling": Ceiling(),
}
Note = Callable[[str], None]
_FETCHES: Final = 10_000
_FETCH_BYTES: Final = 16 << 10


@dataclass(slots=True)
class Outcome:
    """What came out of a case: the figures of every run by contender, and the load of the machine meanwhile. A case
    with a `failure` ended there.
    """

    case: Case
    runs: dict[str, list[Figures]] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)
    failure: str = ""

    def add(self, contender: str, figures: Figures) -> None:
        self.runs.setdefault(contender, []).append(figures)
        self.loads.append(os.getloadavg()[0])


def measure(
    cases: Sequence[Case], repetitions: int, note: Note, *, warm_ups: int, other: Path | None = None
) -> list[Outcome]:
    """Measure everything, after some rounds of what is not counted; `note` hears of every run. A case that fails stops
    no other one. `other` is the checkout of the contender `isthmus-other`.

    :raises CopyFailed: Nothing could be copied even before the first case.
    """
    of_two = [case for case in cases if not isinstance(case, TreeCase)]
    of_eight = [case for case in cases if isinstance(case, TreeCase)]
    contenders = CONTENDERS if other is None else {**CONTENDERS, OTHER: OtherIsthmus(other)}
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-") as name:
        folder = Path(name)
        if of_two:
            with Rig.up() as rig:
                _warm_up(rig, folder, warm_ups, note)
                outcomes += [_measure(rig, contenders, case, repetitions, folder, note) for case in of_two]
        if of_eight:
            with Eight.up() as eight:
                outcomes += [_measure_tree(eight, case, repetitions, folder, note) for case in of_eight]
    return outcomes


def _warm_up(rig: Rig, folder: Path, rounds: int, note: Note) -> None:
    """Let both brokers compile what they will run, so that whoever comes first does not pay for it.

    Their just-in-time compilers need some hundred thousand requests before every repetition meets the same brokers.
    A copier asks for much at once, so the source would see some thousand only: somebody who asks for little helps.
    """
    filling = Pour(
        bootstrap_servers=rig.source.bootstrap_servers,
        topic="bench-warm-up",
        partitions=4,
        batches=12_000,
        codec="none",
        batch_records=61,
    )
    rig.source.fill(filling)
    for number in range(rounds):
        note(f"warming up the brokers ({number + 1} of {rounds})")
        asyncio.run(_fetch_often(filling))
        for name in ("ceiling", "isthmus"):
            label = f"warm{number}{name}"
            copy = rig.copy(filling, label=label, folder=folder)
            copy_once(rig, CONTENDERS[name], copy)
    rig.source.drop([filling.topic])


async def _fetch_often(filling: Pour) -> None:
    """Ask the source of a filling for a batch of every partition, again and again."""
    cluster = Cluster(alias="source", bootstrap_servers=(filling.bootstrap_servers,))
    async with Client(cluster, client_id="warm-up") as client:
        topic = (await client.metadata([filling.topic])).topics[filling.topic]
        connection = await client.connection(topic.partitions[0].leader)
        session = FetchSession[str]()
        for turn in range(_FETCHES):
            offset = turn % filling.batches * filling.batch_records
            for p in topic.partitions:
                session.want((filling.topic, p.partition), Want(topic.topic_id, offset, -1, -1))
            bytes_max = _FETCH_BYTES * filling.partitions
            request = session.request(
                max_wait_ms=0, bytes_max=bytes_max, partition_bytes_max=_FETCH_BYTES, by_topic_id=True
            )
            session.take_answer(await connection.call(request))


def _measure(
    rig: Rig, contenders: Mapping[str, Contender], case: PairCase, repetitions: int, folder: Path, note: Note
) -> Outcome:
    outcome = Outcome(case)
    fillings = _fillings(rig, case)
    for filling in fillings:
        rig.source.fill(filling)
    if "isthmus-mm2" in case.contenders:
        for filling in fillings:
            rig.source.commit(GROUP, filling.topic, filling.partitions)
    try:
        _take_turns(
            outcome,
            repetitions,
            note,
            lambda name, label: _run(rig, contenders.get(name), case, fillings, folder, label),
        )
    finally:
        rig.source.drop([filling.topic for filling in fillings])
    return outcome


def _measure_tree(eight: Eight, case: TreeCase, repetitions: int, folder: Path, note: Note) -> Outcome:
    outcome = Outcome(case)
    _take_turns(outcome, repetitions, note, lambda name, label: kept_alike(eight, name, case, folder, label))
    return outcome


def _take_turns(outcome: Outcome, repetitions: int, note: Note, run: Callable[[str, str], Figures]) -> None:
    """Have each contender `run` under its name and a label, so often, until one fails."""
    case = outcome.case
    try:
        for repetition in range(repetitions):
            # Everybody is once first, once last: what warms up or fills up on the way hits all alike.
            turn = repetition % len(case.contenders)
            for name in case.contenders[turn:] + case.contenders[:turn]:
                note(f"{case.name}: {name} ({repetition + 1} of {repetitions})")
                outcome.add(name, run(name, f"{case.name}{repetition}{name}".replace("-", "")))
    except (CopyFailed, IsthmusError) as error:
        outcome.failure = str(error)


def _fillings(rig: Rig, case: PairCase) -> tuple[Pour, ...]:
    match case:
        case CopyCase():
            return case.fillings(rig.source.bootstrap_servers)
        case IdleCase():
            filling = Pour(
                bootstrap_servers=rig.source.bootstrap_servers,
                topic=f"bench-{case.name}",
                partitions=case.partitions,
                batches=1,
                codec="none",
                batch_records=1,
            )
            return (filling,)
        case LatencyCase():
            return ()


def _run(
    rig: Rig, contender: Contender | None, case: PairCase, fillings: tuple[Pour, ...], folder: Path, label: str
) -> Figures:
    if isinstance(case, LatencyCase):
        return latency_of(rig, contender, case, folder, label)
    if contender is None or not fillings:
        raise InvariantError(f"case {case.name} has nothing to copy, or nobody who does")
    if isinstance(case, IdleCase):
        return idle_cost_of(rig, contender, case, fillings[0], folder, label)
    copy = rig.copy(*fillings, label=label, folder=folder, far=case.far)
    return copy_once(rig, contender, copy)
