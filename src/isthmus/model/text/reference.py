"""Values in files: their places, so that they can be read again after a change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FileReference:
    """A value in a file, by its absolute path: the whole content, or the value of `key` in a Java properties file."""

    file: str
    key: str = ""

    def value_in(self, text: str) -> str:
        """Return the value in `text`, the content of the file.

        :raises KeyError: It holds no such key.
        """
        return dict(_properties(text))[self.key] if self.key else text.rstrip("\r\n")


# The format of java.util.Properties, which Kafka's FileConfigProvider (KIP-297) reads.
_CONTINUED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t\f]*")
_PROPERTY: Final = re.compile(r"[ \t\f]*((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in _CONTINUED.sub(r"\1", text).split("\n"):
        found = _PROPERTY.fullmatch(line)
        if found is not None and found[1] and not line.lstrip(" \t\f").startswith(("#", "!")):
            yield _unescape(found[1]), _unescape(found[2])


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)
