"""Which topics a link mirrors: literal names, prefixes and regular expressions.

A pattern is written as people write it in the configuration:

    orders            the topic of that name
    orders.*          every topic whose name starts with `orders.`; a lone `*` is every topic
    /audit-[0-9]+/    every topic whose whole name matches the regular expression (Python's `re`)

Exclusion wins over inclusion and nothing matches by default. Names starting with `__` belong to
Kafka and to Isthmus itself: they never match, whatever the patterns say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from isthmus.errors import ConfigError
from isthmus.model.patterns import NamePattern

RESERVED_PREFIX: Final = "__"
_NAME_CHARACTERS_MAX: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]*")


@dataclass(frozen=True, slots=True)
class TopicPattern(NamePattern):
    """One pattern of topics."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pattern as people write it; `str` gives the same text back.

        :raises ConfigError: When no topic could ever have such a name, or the expression is broken.
        """
        pattern = cls.split(text)
        if pattern.kind != "regex":
            _check_name(pattern.value, text)
        if text in ("", ".", ".."):
            raise ConfigError(
                f"{text!r} is not a topic name",
                hint="Write a topic's name, a prefix* or a /regex/.",
            )
        return pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """The topics a link mirrors: those included and not excluded."""

    include: tuple[TopicPattern, ...] = ()
    exclude: tuple[TopicPattern, ...] = ()

    def matches(self, name: str) -> bool:
        """Whether the topic is mirrored."""
        return (
            not name.startswith(RESERVED_PREFIX)
            and any(pattern.matches(name) for pattern in self.include)
            and not any(pattern.matches(name) for pattern in self.exclude)
        )

    def select(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names that are mirrored, sorted and each once."""
        return tuple(sorted(name for name in set(names) if self.matches(name)))

    @property
    def literals(self) -> tuple[str, ...]:
        """The names included literally that are mirrored: each is expected to exist. Sorted."""
        return self.select(pattern.value for pattern in self.include if pattern.kind == "literal")


def _check_name(name: str, text: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{text!r} cannot match a topic: names consist of letters, digits, '.', '_' and '-'",
            hint="A star may only stand at the end; write /regex/ for anything else.",
        )
    if len(name) > _NAME_CHARACTERS_MAX:
        raise ConfigError(
            f"{text!r} cannot match a topic: names have at most {_NAME_CHARACTERS_MAX} characters",
            hint="Shorten it.",
        )
