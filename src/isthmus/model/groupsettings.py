"""Which groups a link carries, under which names and how their positions are translated.

Patterns are written as for topics: a name, a `prefix*` or a `/regex/`. A group may have any name, so one that ends with
a star or stands between slashes takes a regular expression. Exclusion wins, and nothing matches by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from isthmus.errors import ConfigError
from isthmus.model.naming import Naming, PrefixNaming
from isthmus.model.offsetscopy import OffsetsCopy
from isthmus.model.problem import Problem
from isthmus.model.text.patterns import NamePattern
from isthmus.model.translation import Way

OWN_PREFIX: Final = "__isthmus."
"""The prefix of groups of Isthmus itself, which are never carried."""
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class GroupPattern(NamePattern):
    """One pattern of groups."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern as people write it; `str` gives the same text back.

        :raises ConfigError: It is empty, or the expression is broken.
        """
        if not text:
            raise ConfigError("'' matches no group", hint="Write a group's name, a prefix*, a /regex/, or * for all.")
        return cls.split(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings for consumer groups of a link. `margin_s` is for the way `timestamp`.

    Without `commit` positions are translated, for checkpoints and for reports, and none is written. A group that was
    deleted at the source is deleted at the target only with `delete_at_target`. `offsets_copy` selects the groups whose
    positions are also written into a topic of the target.
    """

    include: tuple[GroupPattern, ...] = ()
    exclude: tuple[GroupPattern, ...] = ()
    way: Way = "identity"
    margin_s: float = 60.0
    naming: Naming = field(default_factory=PrefixNaming)
    commit: bool = True
    delete_at_target: bool = False
    offsets_copy: OffsetsCopy = OffsetsCopy.NONE

    @property
    def is_configured(self) -> bool:
        """Whether the link carries any groups at all."""
        return bool(self.include)

    def matches(self, group: str) -> bool:
        """Return whether a group of the source is carried."""
        return (
            not group.startswith(OWN_PREFIX)
            and self.naming.to_target(group) is not None
            and any(pattern.matches(group) for pattern in self.include)
            and not any(pattern.matches(group) for pattern in self.exclude)
        )

    def is_copied(self, group: str) -> bool:
        """Return whether the positions of a group of the source are also written into the topic with their copy."""
        if self.offsets_copy is OffsetsCopy.ALL:
            return not group.startswith(OWN_PREFIX)
        return self.offsets_copy is not OffsetsCopy.NONE and self.matches(group)

    def meeting(self, groups: Iterable[str]) -> dict[str, Problem]:
        """Return those of these groups of the source that are not carried: their names at the target collide, or lead
        elsewhere.

        Two groups cannot share one position: the consumers of the slower one would skip records.
        """
        by_target: dict[str, list[str]] = {}
        for group in groups:
            if (name := self.naming.to_target(group)) is not None and self.matches(group):
                by_target.setdefault(name, []).append(group)
        found: dict[str, Problem] = {}
        for name, sources in by_target.items():
            if len(sources) > 1:
                shown = ", ".join(sorted(sources)[:_NAMED_MAX]) + (" and more" if len(sources) > _NAMED_MAX else "")
                problem = Problem(
                    f"groups {shown} would all become {name}: positions of one are not those of another",
                    "Exclude all but one of them from the link's groups, or give them a naming that keeps them apart.",
                )
                found |= dict.fromkeys(sources, problem)
            elif (back := self.naming.to_source(name)) is not None and back != sources[0]:
                found[sources[0]] = Problem(
                    f"group {sources[0]} would become {name}, which is {back} at the source",
                    "A naming has to be reversible: exclude the group, or have the naming keep such names apart.",
                )
        return found

    @property
    def literals(self) -> tuple[str, ...]:
        """The groups included by name: each is expected to exist. Sorted."""
        names = {pattern.value for pattern in self.include if pattern.kind == "literal"}
        return tuple(sorted(name for name in names if self.matches(name)))
