"""When a lease may write and when it has to end: the rules, as a state machine without clock or I/O.

One writer per lane, always. Three things together see to that:

1. A task announces itself in the ledger and reads up to its own announcement before it writes. So the announcement is
   either before or after a revocation of the task, and all readers of the ledger see the same order.
2. It waits until the ledger says that every earlier task of its slot has ended.
3. It writes only within `SILENCE_S` of the last moment at which it knew the whole ledger. A controller that revokes it
   there has to wait no longer than that, even if the task is paused, cut off or forgotten.
"""

from __future__ import annotations

from typing import Final

from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument, MilestonesDocument, TaskDocument
from isthmus.model.lane import Lane, LaneKey, furthest
from isthmus.model.link import Limits
from isthmus.model.process.receipt import Ending
from isthmus.spark.leases.lease import LeaseSpec

SILENCE_S: Final = 10.0
REVOCATION_S: Final = SILENCE_S + 3.0
"""After this a revoked task has written its last byte; the margin is for requests in flight."""
DRAIN_S: Final = 0.5
STALL_S: Final = 2.0
"""Ticks that are further apart than this mean that the event loop stood still."""


class Tenure:
    """One lease as its task sees it. All times are in seconds of a clock that goes on while the machine sleeps;
    `now` is when it began.

    `beat` is the newest heartbeat of its controller, `limits` are those that the ledger had for the whole task.
    `parting` are the lanes that were taken from the slot by its `revision`, and that it may still be writing.
    """

    def __init__(self, spec: LeaseSpec, now: float) -> None:
        self.spec = spec
        self.lanes: dict[LaneKey, Lane] = {lane.key: lane for lane in spec.lanes}
        self.limits: Limits | None = None
        self.ended_through = spec.ended_through
        self.is_clean = spec.is_clean
        self.marks = spec.marks
        self.milestones = spec.milestones
        self.parting: tuple[LaneKey, ...] = ()
        self.revision = spec.revision
        self._deadline = now + spec.term_s
        self._ending: Ending | None = None
        self._announced_at: int | None = None
        self._known_at: float | None = None
        self._position = spec.ledger_position
        self.beat = -1
        self._held_s = 0.0
        self._beat_at = now
        self._deaf_since: float | None = now
        self._ticked_at = now

    def note_announcement(self, offset: int) -> None:
        """Note that the task's announcement is at `offset` of the ledger."""
        self._announced_at = offset

    def note_look(self, asked_at: float, position: int, *, at_end: bool) -> None:
        """Note that the ledger was read up to `position`; `at_end` if that was its end at `asked_at`."""
        self._position = position
        if not at_end:
            self.note_unreadable(asked_at)
            return
        self._known_at = asked_at
        if self._deaf_since is not None and asked_at >= self._deaf_since:
            # Silence counts only while the ledger could be read; silence from before still counts.
            self._beat_at += max(asked_at - max(self._deaf_since, self._beat_at), 0.0)
            self._deaf_since = None

    def note_unreadable(self, now: float) -> None:
        """Note that the ledger, or its end, could not be read."""
        if self._deaf_since is None:
            self._deaf_since = now

    def note_tick(self, now: float) -> None:
        """Note a tick, several times a second. All leases of a task share one event loop: if that stood still (it
        decoded, or the machine slept) no lease could read the ledger, and silence does not count.
        """
        if now - self._ticked_at > STALL_S:
            self.note_unreadable(self._ticked_at)
        self._ticked_at = now

    def note_loss(self) -> None:
        """Note that the ledger was created again: the announcement is not in it."""
        self._announced_at = None

    def hear(self, document: Document, now: float) -> None:
        """Take in one document of the link, in the order of the ledger."""
        match document:
            case ControllerDocument():
                self._hear_controller(document, now)
            case LeaseDocument(slot=slot, controller=controller) if self._is_ours(slot, controller):
                self._hear_lease(document)
            case MilestonesDocument(slot=slot) if slot == self.spec.slot:
                self.milestones = furthest([*self.milestones, *document.milestones])
            case TaskDocument(slot=slot, controller=controller) if self._is_ours(slot, controller):
                self._end_through(document.ended_through, is_clean=document.is_clean)
                if document.has_ended and document.generation < self.spec.generation:
                    self.marks = document.marks
                if document.generation > self.spec.generation:
                    self._end(Ending.SUCCEEDED)

    def _is_ours(self, slot: int, controller: int) -> bool:
        return slot == self.spec.slot and controller == self.spec.controller

    def _hear_controller(self, document: ControllerDocument, now: float) -> None:
        if document.generation > self.spec.controller:
            self._end(Ending.SUPERSEDED)
        elif document.generation == self.spec.controller and document.beat > self.beat:
            self.beat = document.beat
            self._held_s = document.held_s
            self._beat_at = now

    def _hear_lease(self, document: LeaseDocument) -> None:
        self._end_through(document.ended_through, is_clean=document.is_clean)
        if document.revoked_through >= self.spec.generation:
            is_succeeded = document.generation > self.spec.generation
            self._end(Ending.SUCCEEDED if is_succeeded else Ending.REVOKED)
        elif document.revision > self.revision:
            self.revision = document.revision
            self.lanes = {lane.key: lane for lane in document.lanes}
            self.parting = document.parting
            self.limits = document.limits

    def _end_through(self, generation: int, *, is_clean: bool) -> None:
        if generation > self.ended_through:
            self.ended_through = generation
            self.is_clean = is_clean

    def _end(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending = ending

    def ending(self, now: float) -> Ending | None:
        """Return why the lease has to end now; `None` if it does not."""
        if self._ending is None:
            if now >= self._deadline - DRAIN_S:
                self._ending = Ending.TERM
            elif self._deaf_since is None and now - self._beat_at > SILENCE_S + self._held_s:
                self._ending = Ending.ORPHANED
        return self._ending

    @property
    def is_admitted(self) -> bool:
        """Whether the lease may write: its announcement was read back, and every earlier one has ended."""
        return (
            self._ending is None
            and self._announced_at is not None
            and self._position > self._announced_at
            and self.ended_through >= self.spec.generation - 1
        )

    @property
    def write_until(self) -> float:
        """The time from which on nothing may be sent, by what is known now."""
        return -1.0 if self._known_at is None else min(self._deadline, self._known_at + SILENCE_S)
