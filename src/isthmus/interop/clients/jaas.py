"""The value of sasl.jaas.config: a login module, a flag, and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|(?P<sign>[=;])|(?P<word>(?:\$\{[^}]*\}|[^\s=;"'])+))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
# As in Java's StreamTokenizer, which Kafka reads such values with; any other character stands for itself.
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "v": "\v", "a": "\a"}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class NoJaas(Exception):
    """A text that is no such value."""


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """The login module, without its package, and its options, which are secrets in part."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasLogin:
    """Parse the first login module of a value.

    :raises NoJaas: It is broken. The text never says what it holds.
    """
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise NoJaas("it has to begin with a login module and the word required")
    options: dict[str, str] = {}
    rest = tokens[2:]
    while rest and rest[0] != ";":
        if len(rest) < 3 or rest[1] != "=":
            raise NoJaas("its options have to be name=value, with a value in quotes, and end in a semicolon")
        options[rest[0]] = rest[2]
        rest = rest[3:]
    return JaasLogin(tokens[0].rpartition(".")[2], options)


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            raise NoJaas("it has a quote without an end")
        quoted = token["double"] if token["double"] is not None else token["single"]
        found.append(_unescape(quoted) if quoted is not None else token["sign"] or token["word"])
        at = token.end()
    return found


def _unescape(quoted: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), quoted)
