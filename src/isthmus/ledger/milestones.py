"""How far lanes have been, as tasks write it down on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.lane import Milestone


@dataclass(frozen=True, slots=True, kw_only=True)
class MilestonesDocument(DocumentOfLink):
    """How far the lanes of a slot have been, every few seconds: what a task that crashes can say no more.

    Whichever task wrote it, it stays true. Older versions of Isthmus neither write nor read it.
    """

    KIND: ClassVar[str] = "milestones"

    slot: int
    milestones: tuple[Milestone, ...]

    def _path(self) -> tuple[str, ...]:
        return (str(self.slot),)
