"""What an operator has paused of a link: all of it, a task, single topics, or all topics whose names begin alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from isthmus.model.loop import DATA_TASK
from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic


@dataclass(frozen=True, slots=True, order=True)
class PausedTask:
    """A task of a link by its name, as `status` has it in `loops`."""

    name: str

    def __str__(self) -> str:
        return self.name


PausedPart = TargetTopic | Namespace | PausedTask | None
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
        topics = (part for part in self.parts if part is not None and not isinstance(part, Namespace | PausedTask))
        return tuple(sorted(topics))

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """Namespaces of the target that were paused."""
        return tuple(sorted((part for part in self.parts if isinstance(part, Namespace)), key=str))

    @property
    def tasks(self) -> tuple[PausedTask, ...]:
        """Tasks that were paused by themselves."""
        return tuple(sorted(part for part in self.parts if isinstance(part, PausedTask)))

    def stops(self, task: str) -> bool:
        """Whether a task does nothing."""
        return self.is_whole or PausedTask(task) in self.parts

    def covers(self, topic: TargetTopic) -> bool:
        """Whether nothing of a topic is copied."""
        return self.stops(DATA_TASK) or topic in self.parts or any(each.holds(topic) for each in self.namespaces)

    def without(self, part: PausedPart) -> Pauses:
        """Those that are left when one is taken back."""
        return Pauses(self.parts - {part})


NO_PAUSES: Final = Pauses()
