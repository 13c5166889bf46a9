"""What changes the records of lanes on their way: the interface between the engine and the transforms of its owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from isthmus.engine.batches.rebatch import Record
from isthmus.model.lane import Lane


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


Changed = Record | Failure | None
"""What became of a record: the one that is copied in its place (its offset does not matter), a failure, or nothing."""


class TransformFailed(Exception):
    """A transform could not be applied to any record. This is no fault of a record: no policy leaves any out for it."""


class Transformer(Protocol):
    """Changes records. The same records may be changed more than once, and the results may differ: only those that were
    sent to the target count.
    """

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Return what becomes of each record, in their order. Calls for one lane follow one another.

        :raises Exception: The transform cannot be applied. The lane stops, and tries again.
        """


class DeadLetters(Protocol):
    """Where failures of lanes with the policy `DEAD_LETTER` go."""

    async def put(self, lane: Lane, failures: Sequence[Failure]) -> None:
        """Keep these failures; they are durable when this returns. They may come again after a crash.

        :raises ClusterError: They cannot be kept now.
        """
