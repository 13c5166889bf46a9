"""What changes the records of lanes on their way: the interface between the engine and the transforms of its owner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from isthmus.engine.batches.rebatch import Record
from isthmus.errors import ClusterError
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic


class Failure(NamedTuple):
    """A record that could not be changed, and why; `record` is as the source has it."""

    record: Record
    reason: str


class Portion(NamedTuple):
    """Records of one lane that are changed together, and for each whether its timestamp is that of the source's broker
    (LogAppendTime) rather than the producer's.
    """

    lane: Lane
    records: list[Record]
    are_appended: list[bool]


def build_portion(
    topic: str, partition: int, transform: str, records: list[Record], are_appended: list[bool]
) -> Portion:
    """Build a portion as a lane of a topic at the source has it, for a transform (its digest) outside of a run."""
    lane = Lane(
        source_topic=SourceTopic(topic),
        source_topic_id=NO_TOPIC_ID,
        target_topic=TargetTopic(topic),
        target_topic_id=NO_TOPIC_ID,
        partition=partition,
        is_mapped=True,
        transform=transform,
    )
    return Portion(lane, records, are_appended)


class Delayed(NamedTuple):
    """A record that cannot be changed now, through no fault of its own: no policy leaves it out for that."""

    reason: str


Changed = Record | Failure | Delayed | None
"""What became of a record: the one that is copied in its place (its offset does not matter), a failure, nothing, or it
has to wait.
"""


class TransformFailed(Exception):
    """A transform could not be applied to any record. This is no fault of a record: no policy leaves any out for it.

    The `hint` is what to do, "" if the transform has to be corrected.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Transformer(Protocol):
    """Changes records. The same records may be changed more than once, and the results may differ: only those that were
    sent to the target count.
    """

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Return what becomes of each record, in their order. Calls for one lane follow one another.

        :raises Exception: The transform cannot be applied. The lane stops, and tries again.
        """


class DeadLetter(NamedTuple):
    """A record of the source's leader epoch `epoch` that could not be changed, why, and whether its timestamp is that
    of the source's broker.
    """

    record: Record
    epoch: int
    is_appended: bool
    reason: str


class LetterRefused(Exception):
    """A dead letter cannot be kept, through an `error` of its own: that of the record at a source offset and epoch."""

    def __init__(self, place: tuple[int, int], error: ClusterError) -> None:
        super().__init__(error.message)
        self.place, self.error = place, error


class LaneLetters(Protocol):
    """The dead letters of one lane, for the only one who may add to them.

    `kept` are the places of those that are there already: the source offset and the leader epoch of each.
    """

    @property
    def kept(self) -> Collection[tuple[int, int]]: ...

    async def put(self, letters: Sequence[DeadLetter]) -> None:
        """Add letters, none of which are there yet; they are durable when this returns.

        :raises LetterRefused: One of them is refused by itself. Those before it are durable.
        :raises ClusterError: They cannot be kept now; what became of them the next `take_over` finds out.
        """


class DeadLetters(Protocol):
    """Where records go that lanes with the policy `DEAD_LETTER` cannot change."""

    async def take_over(self, lane: Lane, begin: int) -> LaneLetters:
        """Take over the letters of a lane that goes on at the source offset `begin`: whoever had them before adds none
        from now on. What is `kept` is known from that offset on.

        :raises ClusterError: They cannot be read or written now.
        """
