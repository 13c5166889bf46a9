"""Documents of milestones: the progress of lanes, as tasks store it on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.lane import Milestone


@dataclass(frozen=True, slots=True, kw_only=True)
class MilestonesDocument(DocumentOfLink):
    """The progress of the lanes of a slot, stored every few seconds in case the task crashes.

    It stays true, whichever task wrote it. Older versions of Isthmus neither write nor read it.
    """

    KIND: ClassVar[str] = "milestones"

    slot: int
    milestones: tuple[Milestone, ...]

    def _path(self) -> tuple[str, ...]:
        return (str(self.slot),)
