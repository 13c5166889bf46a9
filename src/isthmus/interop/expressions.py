"""Converts regular expressions of Java into those of Python, if both can express the same.

MirrorMaker 2 makes java.util.regex match the whole name, and Isthmus does the same with Python's re. Possessive
quantifiers and atomic groups mean the same in both.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Final

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_PROPERTY: Final = re.compile(r"\{(\w+)\}|(\w)")
_GROUP: Final = re.compile(
    r"\(\?(?:(?P<plain>[:=!>]|<[=!])|<(?P<name>[A-Za-z][A-Za-z0-9]*)>|(?P<flags>[a-zA-Z-]*)(?P<end>[:)]))"
)
_FLAGS: Final = re.compile(r"[ims]*(-[ims]+)?")
_SAME: Final = frozenset("dDwWsSbBAtnrfa123456789")
_SAME_IN_CLASS: Final = frozenset("dDwWsStnrfa")
_OTHER: Final = {"z": r"\Z", "Z": r"\Z", "e": r"\x1b"}
_HEX: Final = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}")


class NoEquivalent(Exception):
    """An expression without an equivalent in Python; the text is the reason."""


def python_expression(java: str) -> str:
    """Return the expression of Python that matches the same names.

    :raises NoEquivalent: There is none, or what is given is no expression of Java.
    """
    found = _Translation(java).all()
    try:
        with warnings.catch_warnings():
            # Python warns of a text that it may read as a set operation some day: it does not read it as Java does
            # today.
            warnings.simplefilter("error")
            re.compile(found)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise NoEquivalent(f"Python cannot read it: {error}") from None
    return found


@dataclass(slots=True)
class _Translation:
    text: str
    at: int = 0
    parts: list[str] = field(default_factory=list)

    def all(self) -> str:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\":
                self._escape()
            elif character == "[":
                self._class()
            elif self.text.startswith("(?", self.at):
                self._group()
            else:
                self._take(character, 1)
        return "".join(self.parts)

    def _take(self, written: str, length: int) -> None:
        self.parts.append(written)
        self.at += length

    def _escape(self) -> None:
        following = self._following()
        if following == "Q":
            self._take(re.escape(self._take_quotation()), 0)
        elif following in "pP":
            self._property(is_inside=False)
        elif following in _OTHER:
            self._take(_OTHER[following], 2)
        elif following == "k":
            name = re.compile(r"\\k<(\w+)>").match(self.text, self.at)
            if name is None:
                raise NoEquivalent("\\k has no name")
            self._take(f"(?P={name[1]})", len(name[0]))
        else:
            self._ordinary(following, _SAME)

    def _ordinary(self, following: str, same: frozenset[str]) -> None:
        """Take an escape that both write alike, or that stands for a character without a meaning of its own."""
        code = _HEX.match(self.text, self.at + 1)
        if code is not None:
            self._take(f"\\{code[0]}", 1 + len(code[0]))
        elif following in same or not following.isalnum():
            self._take(re.escape(following) if not following.isalnum() else f"\\{following}", 2)
        else:
            raise NoEquivalent(f"\\{following} is for Java only")

    def _following(self) -> str:
        if self.at + 1 == len(self.text):
            raise NoEquivalent("it ends in a backslash")
        return self.text[self.at + 1]

    def _take_quotation(self) -> str:
        begin = self.at + 2
        end = self.text.find("\\E", begin)
        self.at = len(self.text) if end < 0 else end + 2
        return self.text[begin:] if end < 0 else self.text[begin:end]

    def _property(self, *, is_inside: bool) -> None:
        found = _PROPERTY.match(self.text, self.at + 2)
        name = (found[1] or found[2]) if found else ""
        is_negated = self.text[self.at + 1] == "P"
        if found is None or name not in _POSIX or (is_negated and is_inside):
            shown = self.text[self.at : found.end() if found else self.at + 2]
            raise NoEquivalent(f"{shown} is for Java only")
        characters = _POSIX[name]
        written = characters if is_inside else f"[{'^' if is_negated else ''}{characters}]"
        self._take(written, found.end() - self.at)

    def _group(self) -> None:
        found = _GROUP.match(self.text, self.at)
        if found is None:
            raise NoEquivalent("it has a group that begins in a way only Java may know")
        if found["name"]:
            self._take(f"(?P<{found['name']}>", len(found[0]))
            return
        flags = found["flags"] or ""
        if _FLAGS.fullmatch(flags) is None:
            raise NoEquivalent(f"the flags {flags} are for Java only")
        if found["end"] == ")" and (self.at > 0 or "-" in flags):
            raise NoEquivalent(f"{found[0]} does not stand at the beginning, where Python wants it")
        self._take(found[0], len(found[0]))

    def _class(self) -> None:
        begin = "[^" if self.text.startswith("[^", self.at) else "["
        self._take(begin, len(begin))
        if self.text.startswith("]", self.at):
            raise NoEquivalent("it has an empty character class")
        while not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise NoEquivalent("a character class has no end")
            self._member()
        self._take("]", 1)

    def _member(self) -> None:
        character = self.text[self.at]
        if character == "[":
            raise NoEquivalent("a character class within another is for Java only")
        if self.text.startswith("&&", self.at):
            raise NoEquivalent("the intersection && of character classes is for Java only")
        if character != "\\":
            self._take(f"\\{character}" if character in "|~&" else character, 1)
            return
        following = self._following()
        if following == "Q":
            self._take(re.escape(self._take_quotation()), 0)
        elif following in "pP":
            self._property(is_inside=True)
        else:
            self._ordinary(following, _SAME_IN_CLASS)
