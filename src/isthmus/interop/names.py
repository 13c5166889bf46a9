"""Converts lists of names and regular expressions of MirrorMaker 2 into patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.expressions import NoEquivalent, python_expression
from isthmus.model.groupsettings import GroupPattern
from isthmus.model.naming import is_reserved
from isthmus.model.selection import TopicPattern
from isthmus.model.text.patterns import NamePattern

_PLAIN: Final = re.compile(r"(?:[^\\^$.|?*+()\[\]{}/]|\\[.\-_])+")
_ESCAPED: Final = re.compile(r"\\(.)")
_AFFECTS_OTHERS: Final = re.compile(r"\(\?[a-zA-Z-]*\)")
_SHORTHAND: Final = re.compile(r"\\[dDwWsSbB]")


@dataclass(frozen=True, slots=True)
class NameList:
    """The patterns, in order and each once, and the items that failed: the text, and the reason."""

    patterns: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def split_list(text: str) -> tuple[str, ...]:
    """Split a list as Kafka does: at every comma, whatever is around it."""
    return tuple(item for each in text.split(",") if (item := each.strip()))


def topic_names(text: str) -> NameList:
    """Convert a list of topics. Names with `__` are left out, and `_schemas`: no link mirrors these."""
    found = _parse_names(text, TopicPattern.parse, is_ascii=True)
    kept = tuple(pattern for pattern in found.patterns if not is_reserved(pattern))
    return NameList(kept, found.failed)


def topic_pattern(java: str) -> str:
    """Convert one expression that matches whole names of topics; a comma in it is part of it.

    :raises NoEquivalent: It has no equivalent.
    """
    return _pattern(java, TopicPattern.parse, is_ascii=True)


def group_names(text: str) -> NameList:
    """Convert a list of groups, whose names may have any characters."""
    return _parse_names(text, GroupPattern.parse, is_ascii=False)


def _parse_names(text: str, parse: Callable[[str], NamePattern], *, is_ascii: bool) -> NameList:
    items = split_list(text)
    # MirrorMaker 2 joins the items to one expression, so a bracket or flag in an item affects those behind it.
    parts: tuple[str, ...] = items
    if any(_AFFECTS_OTHERS.search(item) for item in items) or not all(map(_stands_alone, items)):
        parts = ("|".join(items),)
    patterns: dict[str, None] = {}
    failed: list[tuple[str, str]] = []
    for part in parts:
        try:
            patterns[_pattern(part, parse, is_ascii=is_ascii)] = None
        except NoEquivalent as reason:
            failed.append((part, str(reason)))
    return NameList(tuple(patterns), tuple(failed))


def _stands_alone(item: str) -> bool:
    try:
        python_expression(item)
    except NoEquivalent as reason:
        # Half of a group may become whole with the items behind it; nothing else does.
        return not re.search(r"unterminated|unbalanced|missing \)|no end", str(reason))
    return True


def _pattern(java: str, parse: Callable[[str], NamePattern], *, is_ascii: bool) -> str:
    stem = java.removesuffix(".*")
    is_prefix = stem != java
    if (not stem and is_prefix) or _PLAIN.fullmatch(stem):
        name = _ESCAPED.sub(r"\1", stem)
        try:
            return str(parse(f"{name}*" if is_prefix else name))
        except ConfigError:
            pass  # no topic's name, or one that would be read as a pattern: the expression says the same
    expression = python_expression(java)
    if not is_ascii and _SHORTHAND.search(expression):
        # In Java these are ASCII, in Python Unicode.
        expression = f"(?a){expression}"
    try:
        return str(parse(f"/{expression}/"))
    except ConfigError as error:
        raise NoEquivalent(error.message) from None


def merge_patterns(*lists: Iterable[str]) -> tuple[str, ...]:
    """Merge all patterns of several lists, each once."""
    return tuple(dict.fromkeys(pattern for each in lists for pattern in each))
