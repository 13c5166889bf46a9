"""What is known of a lane's transactions at the target, and the coordinator epoch of its control records. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from isthmus.engine.state.writer import LogLook, ProducerState
from isthmus.model.kafka.transactions import marker_epoch


@dataclass(slots=True)
class TargetTransactions:
    """The transactions of one lane at the target.

    It `is_whole` while transactions are copied before it is known how they end: open ones are read then as well.
    `ending` holds the producers of the source whose transactions a coordinator may still be ending, with one more
    control record each. `marker_epoch` is the coordinator epoch of our own control records, a larger one after each
    look at the lane. `alone` is the state that the target's leader kept of producers that no coordinator knows when the
    lane's place was found; `others_open` means that another producer had a transaction open.
    """

    is_whole: bool
    ending: set[int] = field(default_factory=set)
    marker_epoch: int = 0
    alone: Mapping[int, ProducerState] = field(default_factory=dict)
    others_open: bool = False

    def raise_epoch(self, reported: int, now_s: float) -> None:
        """Use a coordinator epoch above all before: `reported` is the largest that the target's leader knows of."""
        self.marker_epoch = marker_epoch(self.marker_epoch, reported, now_s)

    def skip_epochs(self, epochs: int) -> None:
        """Use a larger coordinator epoch: the leader refused the present one, and reports no larger one."""
        self.marker_epoch += epochs

    def look(self, seen: LogLook) -> None:
        """Take the producers' states of the look that found the lane's place."""
        self.alone, self.others_open = seen.alone, seen.others_open

    def outdate(self, producers: Collection[int]) -> None:
        """Forget the states of these producers: they have written since the look."""
        self.alone = {producer: state for producer, state in self.alone.items() if producer not in producers}

    def begin_ending(self, producers: Iterable[int]) -> None:
        """Note that a coordinator may be ending the transactions of these producers of the source."""
        self.ending.update(producers)

    def end(self, producer: int) -> None:
        """Note that the control record of a transaction is in the log, and no other one will come."""
        self.ending.discard(producer)

    def end_all(self) -> None:
        """Note that no coordinator is ending a transaction of the lane."""
        self.ending.clear()

    def go_by_records(self) -> None:
        """Copy transactions only once it is known how they end."""
        self.is_whole = False
