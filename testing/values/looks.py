"""Routes whose leaders say what a test has them say: what is read of a cluster, without one."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Leader, Routes
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import Writer
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark, Milestone, milestone_of
from isthmus.model.naming import SourceTopic, TargetTopic

PRODUCER: Final = ProducerIdentity(producer_id=1, marker_producer_id=2)
NOWHERE: Final = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))


class Told(Routes[Any]):
    """Every question to the leaders gets the next answer of `answers`, for whichever partition; then none does."""

    def __init__(self, client: Client, *answers: Any) -> None:
        super().__init__(client)
        self._answers: Iterator[Any] = iter(answers)

    def leader(self, topic: str, partition: int) -> Leader | None:
        return Leader(1, 0)

    async def refresh(self) -> None:
        """Nothing changes."""

    async def ask(
        self,
        keys: Iterable[PartitionKey],
        ask: Callable[[Any, dict[PartitionKey, int]], Awaitable[Mapping[PartitionKey, Any]]],
    ) -> dict[PartitionKey, Any]:
        # Where there is nobody to ask about, nobody is asked.
        return {key: answer for key in keys for answer in [next(self._answers, None)] if answer is not None}


def lane_of(*batches: Batch, position: int = -1, abandoned: bool = False, **settings: Any) -> LaneRun:
    """A lane that holds these batches, read and plain, and whose writer stands at `position`."""
    lane = Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=0,
        **settings,
    )
    run = LaneRun(lane, Writer(abandoned=abandoned))
    run.writer.position = position
    if batches:
        run.intake.read_from(batches[0].base_offset)
        run.offer(Piece(batch, is_plain=True, is_aborted=False) for batch in batches)
    return run


def been_at(run: LaneRun, position: int, epoch: int = 7) -> Milestone:
    """So far the lane has been."""
    return milestone_of(run.lane, LaneMark(*run.lane.key, position, epoch))
