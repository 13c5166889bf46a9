"""Documents of consumer groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem


class GroupPosition(NamedTuple):
    """The positions on both sides of one partition when a link, of either direction, last made them alike."""

    topic: TargetTopic
    partition: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDocument(DocumentOfLink):
    """A consumer group whose positions the link carries. Without a document no position is ever moved back.

    `attempted` are the positions of a commit with unknown result: a look at the target shows it.
    """

    KIND: ClassVar[str] = "group"

    group: str
    standing: str
    positions: tuple[GroupPosition, ...] = ()
    attempted: tuple[GroupPosition, ...] = ()
    problem: Problem | None = None

    def _path(self) -> tuple[str, ...]:
        return (self.group,)
