"""Which topics of the source a predicate on names at the target is true for.

MirrorMaker 2 hands records over under their names at the target (MirrorSourceTask.java, `convertRecord`), so an
expression has to lose what stands before the names of the source. Where its text does not show how, it has no
equivalent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from isthmus.interop.expressions import NoEquivalent, python_expression
from isthmus.interop.names import topic_pattern
from isthmus.interop.transforms.routing import TargetNames
from isthmus.model.selection import TopicPattern

_LITERAL: Final = re.compile(r"[A-Za-z0-9_-]|\\[._-]")
_MANY: Final = re.compile(r"\.[*+]")
_QUANTIFIERS: Final = tuple("*+?{")


def source_patterns(java: str, names: TargetNames) -> tuple[str, ...]:
    """Return the patterns of topics at the source whose names at the target a Java expression matches as a whole; none
    if there can be no such topic.

    :raises NoEquivalent: There are no such patterns, or the text does not show them.
    """
    if names.end:
        raise NoEquivalent("names at the target have an end of their own")
    found = [each for part in _alternatives(java) for each in _without(part, names.begin)]
    return tuple(dict.fromkeys(topic_pattern(each) for each in found))


def regex_of(pattern: str) -> str:
    """Return a pattern of topics as an expression of Python."""
    found = TopicPattern.parse(pattern)
    if found.kind == "regex":
        return f"(?:{found.value})"
    return f"{re.escape(found.value)}{'.*' if found.kind == 'prefix' else ''}"


def _alternatives(java: str) -> list[str]:
    """Split an expression at the bars that are in no group and no class."""
    parts, depth, at, begin = [], 0, 0, 0
    while at < len(java):
        character = java[at]
        if character == "\\":
            at += 1
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "|" and depth == 0:
            parts.append(java[begin:at])
            begin = at + 1
        at += 1
    return [*parts, java[begin:]]


def _without(java: str, begin: str) -> Iterator[str]:
    """Yield the expression of what follows a beginning of names; nothing if it matches no name that begins so."""
    rest = java.removeprefix("^")
    if rest.endswith("$") and not rest.endswith("\\$"):
        rest = rest[:-1]
    for place, character in enumerate(begin):
        if many := _MANY.match(rest):
            yield f".*{_behind_many(rest[many.end() :], begin[place:])}"
            return
        token = "." if rest.startswith(".") else (found[0] if (found := _LITERAL.match(rest)) else "")
        if not token or rest[len(token) :].startswith(_QUANTIFIERS):
            raise NoEquivalent(f"it does not show which names begin with {begin}")
        if token != "." and token[-1] != character:  # noqa: S105 - part of an expression
            return
        rest = rest[len(token) :]
    if rest.startswith(_QUANTIFIERS):
        raise NoEquivalent(f"it does not show which names begin with {begin}")
    yield rest


def _behind_many(rest: str, begin: str) -> str:
    """Return what follows any characters, if that cannot begin within `begin`.

    :raises NoEquivalent: It can.
    """
    literal = ""
    at = 0
    while (found := _LITERAL.match(rest, at)) and not rest[found.end() :].startswith(_QUANTIFIERS):
        literal += found[0][-1]
        at = found.end()
    if rest and not literal:
        raise NoEquivalent(f"it does not show which names begin with {begin}")
    for place in range(len(begin) if rest else 0):
        if begin[place:].startswith(literal) or literal.startswith(begin[place:]):
            raise NoEquivalent(f"it may match within {begin}, which stands before the names")
    python_expression(rest)
    return rest
