"""Suggestions for a pattern that matches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from isthmus.model.text.patterns import NamePattern

_NOT_LITERAL: Final = re.compile(r"\[[^]]*\]|\{[^}]*\}|\\[a-zA-Z]|[^A-Za-z0-9._-]|(?<!\\)\.[*+?]")
"""The parts of a regular expression that are not literal."""


def nearest(pattern: NamePattern, names: Iterable[str]) -> str | None:
    """Return the name a pattern was probably meant for, `None` if none is similar. Case does not matter."""
    wanted = pattern.value if pattern.kind != "regex" else _NOT_LITERAL.sub("", pattern.value)
    begins: dict[str, str] = {}
    for name in sorted(names, reverse=True):
        # Only a literal determines the end of its name.
        begin = name if pattern.kind == "literal" else name[: len(wanted)]
        begins[begin.lower()] = name
    near = get_close_matches(wanted.lower(), begins, n=1) if wanted else []
    return begins[near[0]] if near else None
