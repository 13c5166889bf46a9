"""Patterns of names as people write them: a name, a `prefix*` or a `/regex/`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeVar, assert_never

from isthmus.errors import ConfigError
from isthmus.model.text.expression import TooLarge, Unbounded, matcher


@dataclass(frozen=True, slots=True)
class NamePattern:
    """One pattern. `value` is the name, the prefix without its star or the bare expression."""

    kind: Literal["literal", "prefix", "regex"]
    value: str

    @classmethod
    def split(cls, text: str) -> Self:
        """Parse a pattern as people write it; `str` gives the same text back.

        :raises ConfigError: The expression is broken.
        """
        if len(text) >= 2 and text[0] == text[-1] == "/":
            _check_regex(text[1:-1])
            return cls("regex", text[1:-1])
        if text.endswith("*"):
            return cls("prefix", text[:-1])
        return cls("literal", text)

    def matches(self, name: str) -> bool:
        """Return whether the name fits this pattern alone."""
        match self.kind:
            case "literal":
                return name == self.value
            case "prefix":
                return name.startswith(self.value)
            case "regex":
                return matcher(self.value)(name)
            case _:
                assert_never(self.kind)

    def __str__(self) -> str:
        match self.kind:
            case "literal":
                return self.value
            case "prefix":
                return f"{self.value}*"
            case "regex":
                return f"/{self.value}/"
            case _:
                assert_never(self.kind)


PatternT = TypeVar("PatternT", bound=NamePattern)
_SHOWN_MAX: Final = 300


def find_unmatched(patterns: Sequence[PatternT], selected: Iterable[str]) -> tuple[PatternT, ...]:
    """Return the patterns that match none of the selected names, in their order."""
    names = tuple(selected)
    return tuple(pattern for pattern in patterns if not any(pattern.matches(name) for name in names))


def _shorten(expression: str) -> str:
    return expression if len(expression) <= _SHOWN_MAX else f"{expression[:_SHOWN_MAX]}..."


def _check_regex(expression: str) -> None:
    if not expression:
        raise ConfigError("// is an empty regular expression", hint="Write * for every name.")
    try:
        matcher(expression)
    except re.error as error:
        raise ConfigError(
            f"/{_shorten(expression)}/ is not a regular expression: {error}",
            hint="It is read as Python's re module reads it and has to match the whole name.",
        ) from error
    except TooLarge as error:
        raise ConfigError(
            f"/{_shorten(expression)}/ is too large: {error}",
            hint="Write several expressions in the place of one, * for any number of times, or a prefix: orders-*.",
        ) from error
    except Unbounded as error:
        raise ConfigError(
            f"/{_shorten(expression)}/ could take for ever: it has too many ways to match, and {error}",
            hint="Take one of the two out: write (a|b)+ as [ab]+, or several expressions in the place of one.",
        ) from error
