"""What an operator has paused of a link: all of it, single topics, or all topics whose names begin alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic

PausedPart = TargetTopic | Namespace | None
"""What one pause is about; `None` for the whole link."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of a link. Each is taken back by itself, and a topic is copied once none covers it."""

    parts: frozenset[PausedPart] = frozenset()

    @classmethod
    def of(cls, parts: Iterable[PausedPart]) -> Self:
        return cls(frozenset(parts))

    @property
    def is_whole(self) -> bool:
        """Whether the link as a whole is paused."""
        return None in self.parts

    @property
    def topics(self) -> tuple[TargetTopic, ...]:
        """Topics that were paused by themselves."""
        return tuple(sorted(part for part in self.parts if part is not None and not isinstance(part, Namespace)))

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """Namespaces of the target that were paused."""
        return tuple(sorted((part for part in self.parts if isinstance(part, Namespace)), key=str))

    def covers(self, topic: TargetTopic) -> bool:
        """Whether nothing of a topic is copied."""
        return self.is_whole or topic in self.parts or any(each.holds(topic) for each in self.namespaces)

    def without(self, part: PausedPart) -> Pauses:
        """Those that are left when one is taken back."""
        return Pauses(self.parts - {part})


NO_PAUSES: Final = Pauses()
