"""The configuration file as text: sections as YAML in blocks, with comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

import yaml

KeyPath = tuple[str, ...]
Comments = Mapping[KeyPath, str]
_WIDTH: Final = 120
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# Words that YAML 1.1 does not read as text.
_WORDS: Final = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def format_file(sections: Mapping[str, object], comments: Comments, head: str) -> str:
    """Return the text. `comments` are by the keys of the line after them; items of lists have their numbers."""
    lines = [f"# {_printable(line)}".rstrip() for line in head.splitlines()]
    for key, value in sections.items():
        lines += [*_entry(key, value, (key,), 0, comments)]
    return "\n".join(lines) + "\n"


def _entry(key: str, value: object, path: KeyPath, depth: int, comments: Comments) -> Iterator[str]:
    indent = "  " * depth
    yield from _comment(comments.get(path, ""), indent)
    if isinstance(value, Mapping) and value:
        yield f"{indent}{_scalar(key)}:"
        for name, inner in value.items():
            yield from _entry(str(name), inner, (*path, str(name)), depth + 1, comments)
        # A comment on a missing key stands where the key would be.
        for missing, text in comments.items():
            if missing[:-1] == path and missing[-1] not in value:
                yield from _comment(text, f"{indent}  ")
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        yield f"{indent}{_scalar(key)}:"
        for position, item in enumerate(value):
            yield from _item(item, (*path, str(position)), depth + 1, comments)
    else:
        yield f"{indent}{_scalar(key)}: {_flow(value)}"


def _item(item: Mapping[str, object], path: KeyPath, depth: int, comments: Comments) -> Iterator[str]:
    yield from _comment(comments.get(path, ""), "  " * depth)
    lines = [line for key, value in item.items() for line in _entry(key, value, (*path, key), depth + 1, comments)]
    for missing, text in comments.items():
        if missing[:-1] == path and missing[-1] not in item:
            lines += _comment(text, "  " * (depth + 1))
    first, *rest = lines
    yield f"{'  ' * depth}- {first.lstrip()}"
    yield from rest


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(_printable(text).split()), _WIDTH - len(indent) - 2):
        yield f"{indent}# {line}"


def _printable(text: str) -> str:
    """Remove characters that YAML does not allow, even in a comment: the text may come from outside."""
    return "".join(character if character.isprintable() else " " for character in text)


def _flow(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _scalar(str(value))


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    written: str = yaml.safe_dump(text, default_style='"', width=1_000_000, allow_unicode=False)
    return written.strip()
