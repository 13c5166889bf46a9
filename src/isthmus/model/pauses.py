"""What an operator has paused of a link: all of it, a task, single topics, or all topics whose names begin alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypedDict

from isthmus.model.instant import written_instant
from isthmus.model.loop import DATA_TASK
from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic
from isthmus.model.wording import counted


@dataclass(frozen=True, slots=True, order=True)
class PausedTask:
    """A task of a link by its name, as `status` has it in `loops`."""

    name: str

    def __str__(self) -> str:
        return self.name


PausedPart = TargetTopic | Namespace | PausedTask | None
"""What one pause is about; `None` for the whole link."""


class PauseJson(TypedDict):
    """Something that is paused: the one of the first three that is not null, else the whole link."""

    topic: str | None
    namespace: str | None
    task: str | None
    since: str
    by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One pause: since when (ms since 1970) and by whom, "" where an older release wrote it."""

    part: PausedPart
    since_ms: int
    by: str

    @property
    def described(self) -> str:
        """What is paused, since when, and by whom, in words."""
        what = {Namespace: f"namespace {self.part}", PausedTask: f"task {self.part}", type(None): "all of it"}
        by = f" by {self.by}" if self.by else ""
        return f"{what.get(type(self.part), f'topic {self.part}')} is paused since {written_instant(self.since_ms)}{by}"

    def as_dict(self) -> PauseJson:
        """Plain values under stable names: the one of the first three that is not null is paused, else all of it."""
        part = self.part
        return {
            "topic": None if part is None or isinstance(part, Namespace | PausedTask) else str(part),
            "namespace": part.prefix if isinstance(part, Namespace) else None,
            "task": part.name if isinstance(part, PausedTask) else None,
            "since": written_instant(self.since_ms),
            "by": self.by or None,
        }


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of a link. Each is taken back by itself, and a topic is copied once none covers it. `told` says of
    each who gave it.
    """

    parts: frozenset[PausedPart] = frozenset()
    told: tuple[Pause, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, parts: Iterable[PausedPart]) -> Self:
        return cls(frozenset(parts))

    @classmethod
    def given(cls, pauses: Iterable[Pause]) -> Self:
        """These, that of the whole link first."""
        told = sorted(pauses, key=lambda each: (each.part is not None, str(each.part)))
        return cls(frozenset(each.part for each in told), tuple(told))

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
        return Pauses(self.parts - {part}, tuple(each for each in self.told if each.part != part))


NO_PAUSES: Final = Pauses()
_TOLD_MAX: Final = 10


def told_of(pauses: Sequence[Pause]) -> list[str]:
    """What is paused, for people: a line of each, at most ten, and how many more there are."""
    told, more = [each.described for each in pauses[:_TOLD_MAX]], len(pauses) - _TOLD_MAX
    return told if more <= 0 else [*told, f"{counted(more, 'more pause')}: -o json has them all"]
