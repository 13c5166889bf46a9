"""Completion for shells: commands and options from a table made beforehand, names as they were found last.

Nothing of what commands need is loaded: all of it, the start of the interpreter included, has to be over within 300 ms.
`tree.json` is written by `make docs` (cli/tree.py); a test sees that it is up to date.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from isthmus import config
from isthmus.config.reading.contexts import VARIABLE as CONTEXT_VARIABLE
from isthmus.config.reading.contexts import read_contexts
from isthmus.config.reading.places import user_folder
from isthmus.errors import ConfigError

VARIABLE: Final = "_ISTHMUS_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
TREE: Final = Path(__file__).with_name("tree.json")
_Node = Mapping[str, Any]
# Names that a shell would interpret are left out: zsh evaluates its completions, bash expands stars.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/@+=-]+")


@dataclass(slots=True)
class Line:
    """A command line as far as it is written: its place in the tree, and its values."""

    node: _Node
    expecting: str | None = None
    """The kind of value that the last option wants."""
    positionals: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    """Values of options, by the kind of value."""

    def take(self, word: str) -> None:
        """Take one more complete word."""
        if self.expecting is not None:
            self.given[self.expecting] = word
            self.expecting = None
        elif word.startswith("-"):
            name, has_value, value = word.partition("=")
            kind = self.node["options"].get(name)
            if kind and has_value:
                self.given[kind] = value
            elif kind:
                self.expecting = kind
        elif (name := self.node["synonyms"].get(word, word)) in self.node["commands"]:
            self.node = self.node["commands"][name]
        else:
            self.positionals.append(word)


def is_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a known shell asks for completions."""
    return environment.get(VARIABLE, "") in [f"complete_{shell}" for shell in SHELLS]


def complete(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Return the answer for the shell, and the exit code."""
    shell = environment[VARIABLE].removeprefix("complete_")
    words, incomplete = _bash_words(environment) if shell == "bash" else _other_words(environment)
    found = completions(words, incomplete)
    if shell == "bash":
        return "\n".join(found) + "\n", 0
    if shell == "zsh":
        listed = "\n".join(f'"{each}"' for each in found)
        return (f"_arguments '*: :(({listed}))'\n" if found else "_files\n"), 0
    if environment.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    return "\n".join(found) + "\n", 0


def completions(words: Sequence[str], incomplete: str) -> list[str]:
    """Return the completions of the last word; none for files, or if nothing is known."""
    line = Line(json.loads(TREE.read_text(encoding="utf-8")))
    for word in words:
        line.take(word)
    option, has_value, begun = incomplete.partition("=")
    if line.expecting is not None:
        found = _values(line.expecting, line, incomplete)
    elif incomplete.startswith("-") and has_value:
        kind = line.node["options"].get(option)
        found = [f"{option}={value}" for value in _values(kind, line, begun)] if kind else []
    elif incomplete.startswith("-"):
        found = list(line.node["options"])
    elif line.node["commands"]:
        found = list(line.node["commands"])
    else:
        kinds = line.node["arguments"]
        kind = kinds[min(len(line.positionals), len(kinds) - 1)] if kinds else None
        found = _values(kind, line, incomplete) if kind else []
    return [each for each in found if each.startswith(incomplete) and _PLAIN.fullmatch(each)]


def _values(kind: str, line: Line, begun: str) -> list[str]:
    if kind.startswith("choice:"):
        return kind.removeprefix("choice:").split(",")
    if kind not in ("context", "link", "topic", "group", "cluster", "target", "tree"):
        return []
    from isthmus.cli.remembered import Remembered

    context = line.given.get("context")
    environment = os.environ if context is None else {**os.environ, CONTEXT_VARIABLE: context}
    try:
        if kind == "context":
            return sorted(read_contexts(user_folder()).paths)
        names = Remembered(config.find(line.given.get("file"), environment))
    except ConfigError:
        return []
    names.refresh()
    first = line.positionals[0] if line.node["arguments"][:1] == ["link"] and line.positionals else None
    link = line.given.get("link", first)
    if kind == "topic":
        return names.topics(link)
    if kind == "group":
        return names.groups(link)
    if kind == "cluster":
        return names.clusters()
    if kind == "tree":
        return names.trees()
    name, slash, _ = begun.partition("/")
    if kind == "target" and slash:
        return [f"{name}/{topic}" for topic in names.topics(name)]
    return names.links()


def _bash_words(environment: Mapping[str, str]) -> tuple[list[str], str]:
    words = _split(environment.get("COMP_WORDS", ""))
    here = int(environment.get("COMP_CWORD", "0"))
    # For bash `--link=east` is three words, of which the last is to be completed.
    incomplete = words[here] if here < len(words) else ""
    return [word for word in words[1:here] if word != "="], incomplete.removeprefix("=")


def _other_words(environment: Mapping[str, str]) -> tuple[list[str], str]:
    written = environment.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(written)[1:]
    if words and not written.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _split(text: str) -> list[str]:
    """Return the words of a command line, whose last quote may still be open."""
    for closing in ("", "'", '"'):
        try:
            return shlex.split(text + closing)
        except ValueError:
            continue
    return text.split()
