"""What the ledger remembers of consumer groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem


class GroupPosition(NamedTuple):
    """Where both sides of one partition stood when a link, in whichever direction, last made them alike."""

    topic: TargetTopic
    partition: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDocument(DocumentOfLink):
    """One consumer group that the link carries. Without it no position is ever moved back.

    `attempted` are those of a commit of which it was not known whether it was made: a look at the target tells.
    """

    KIND: ClassVar[str] = "group"

    group: str
    standing: str
    positions: tuple[GroupPosition, ...] = ()
    attempted: tuple[GroupPosition, ...] = ()
    problem: Problem | None = None

    def _path(self) -> tuple[str, ...]:
        return (self.group,)
