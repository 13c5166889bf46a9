"""Values kept outside the file: `${env:NAME}`, `${file:/path}` and `${file:/path:key}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final

from isthmus.config.document import Path
from isthmus.config.problems import Problem

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_FORMS: Final = "Write ${env:NAME}, ${file:/path} or ${file:/path:key}; $${ stands for a plain ${."


@dataclass(slots=True)
class Resolution:
    """A document's values with every reference replaced.

    `referenced` are the paths whose text came, at least in part, from elsewhere; `problems` are
    the references that lead nowhere, which are named, while what was found never is.
    """

    environment: Mapping[str, str]
    folder: FilePath
    root: object = None
    referenced: set[Path] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def of(cls, root: object, environment: Mapping[str, str], folder: FilePath) -> Resolution:
        """Resolve all texts below `root`; relative paths start at `folder`."""
        resolution = cls(environment, folder)
        resolution.root = resolution._value(root, ())
        return resolution

    def is_unresolved(self, path: Path) -> bool:
        """Whether the value at the path, or a text it was taken from, lacks what it refers to."""
        return any(path[: len(problem.path)] == problem.path for problem in self.problems)

    def _value(self, value: object, path: Path) -> object:
        if isinstance(value, dict):
            return {key: self._value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self._value(item, (*path, i)) for i, item in enumerate(value))
        if isinstance(value, str) and "${" in value:
            return _REFERENCE.sub(lambda found: self._text(found, path), value)
        return value

    def _text(self, found: re.Match[str], path: Path) -> str:
        if found[1] is None:
            return "${"
        self.referenced.add(path)
        kind, _, rest = found[1].partition(":")
        try:
            if kind == "env" and rest:
                return self._from_environment(rest)
            if kind == "file" and rest:
                return self._from_file(rest)
            raise _Unresolved(f"holds ${{{found[1]}}}, which is no reference", _FORMS)
        except _Unresolved as unresolved:
            self.problems.append(Problem(path, unresolved.message, unresolved.hint))
            return ""

    def _from_environment(self, name: str) -> str:
        if name not in self.environment:
            raise _Unresolved(
                f"refers to the environment variable {name}, which is not set",
                f"Set {name} before starting, for example with: export {name}=...",
            )
        return self.environment[name]

    def _from_file(self, rest: str) -> str:
        name, _, key = rest.rpartition(":") if ":" in rest else (rest, "", "")
        try:
            text = (self.folder / FilePath(name).expanduser()).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise _Unresolved(
                f"refers to the file {name}, which cannot be read: {reason}",
                f"Create {name} and let the user who runs Isthmus read it.",
            ) from None
        if not key:
            return text.rstrip("\r\n")
        properties = dict(_properties(text))
        if key not in properties:
            raise _Unresolved(
                f"refers to {key} in the file {name}, which has no such key",
                f"Add a line {key}=... to {name}.",
            )
        return properties[key]


class _Unresolved(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


# The format of java.util.Properties, which Kafka's FileConfigProvider (KIP-297) reads.
_CONTINUED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t\f]*")
_PROPERTY: Final = re.compile(r"[ \t\f]*((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in _CONTINUED.sub(r"\1", text).split("\n"):
        found = _PROPERTY.fullmatch(line)
        if found is not None and found[1] and not line.lstrip(" \t\f").startswith(("#", "!")):
            yield _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)
