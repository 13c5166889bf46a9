"""The parts of a link that operators have paused: all of it, a task, single topics, or all topics with a prefix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Self

from isthmus.model.loop import DATA_TASK
from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import Hidden, PlainValue, TextOrNull, computed_field
from isthmus.model.text.wording import format_count


@dataclass(frozen=True, slots=True, order=True)
class PausedTask:
    """A task of a link by its name, as `status` has it in `loops`."""

    name: str

    def __str__(self) -> str:
        return self.name


PausedPart = TargetTopic | Namespace | PausedTask | None
"""The subject of one pause; `None` for the whole link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(PlainValue):
    """Something that is paused: the one of the first three that is not null, else the whole link.

    `since_ms` is since 1970, and `by` "" where an older release wrote it.
    """

    part: Hidden[PausedPart]
    since_ms: Annotated[int, "since", written_instant]
    by: TextOrNull

    @property
    def described(self) -> str:
        """Describe the paused part, the time, and the operator, in words."""
        what = {Namespace: f"namespace {self.part}", PausedTask: f"task {self.part}", type(None): "all of it"}
        by = f" by {self.by}" if self.by else ""
        return f"{what.get(type(self.part), f'topic {self.part}')} is paused since {written_instant(self.since_ms)}{by}"

    @computed_field(before="since_ms")
    def topic(self) -> str | None:
        return None if self.part is None or isinstance(self.part, Namespace | PausedTask) else self.part

    @computed_field(before="since_ms")
    def namespace(self) -> str | None:
        return self.part.prefix if isinstance(self.part, Namespace) else None

    @computed_field(before="since_ms")
    def task(self) -> str | None:
        return self.part.name if isinstance(self.part, PausedTask) else None


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of a link. Each is resumed by itself, and a topic is copied once no pause covers it. `authored` has
    the author of each.
    """

    parts: frozenset[PausedPart] = frozenset()
    authored: tuple[Pause, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, parts: Iterable[PausedPart]) -> Self:
        return cls(frozenset(parts))

    @classmethod
    def from_pauses(cls, pauses: Iterable[Pause]) -> Self:
        """Return these pauses, that of the whole link first."""
        ordered = sorted(pauses, key=lambda each: (each.part is not None, str(each.part)))
        return cls(frozenset(each.part for each in ordered), tuple(ordered))

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
        """Return whether a task is paused."""
        return self.is_whole or PausedTask(task) in self.parts

    def covers(self, topic: TargetTopic) -> bool:
        """Return whether a topic is paused."""
        return self.stops(DATA_TASK) or topic in self.parts or any(each.holds(topic) for each in self.namespaces)

    def without(self, part: PausedPart) -> Pauses:
        """Return the pauses that are left when one is resumed."""
        return Pauses(self.parts - {part}, tuple(each for each in self.authored if each.part != part))


NO_PAUSES: Final = Pauses()
_TOLD_MAX: Final = 10


def told_of(pauses: Sequence[Pause]) -> list[str]:
    """Describe pauses for people: one line for each, at most ten, and the number of others."""
    lines, more = [each.described for each in pauses[:_TOLD_MAX]], len(pauses) - _TOLD_MAX
    return lines if more <= 0 else [*lines, f"{format_count(more, 'more pause')}: -o json has them all"]
