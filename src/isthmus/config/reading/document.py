"""A YAML document as plain values, with the line on which each of them is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from isthmus.errors import ConfigError

Path = tuple[str | int, ...]
"""The place of a value: the keys and list positions that lead to it from the top."""


# The errors that PyYAML does not wrap when a scalar does not fit its tag, such as the date 2024-13-45.
_CONSTRUCTION_ERRORS: Final = (ValueError, KeyError, AttributeError, TypeError, IndexError)
_VALUES_MAX: Final = 100_000
"""No configuration has more values: a short text with aliases of aliases can expand to billions of them."""


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """`root` consists of dicts with text keys, tuples and scalars; lines are counted from 1. `given` are the values
    that are not in the text, and their sources.
    """

    name: str
    root: object
    lines: Mapping[Path, int]
    given: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, name: str) -> ConfigDocument:
        """Read YAML; only plain data, no tags that would build objects.

        :raises ConfigError: When the text is no YAML, or a key is written twice.
        """
        lines: dict[Path, int] = {}
        with _translate_yaml_errors(text, name):
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            root = _Walk(loader, lines, name).value(node, ()) if node is not None else {}
        return cls(name, root, lines)

    @classmethod
    def parse_all(cls, text: str, name: str) -> tuple[ConfigDocument, ...]:
        """All documents of a text that holds several; lines are those of the text.

        :raises ConfigError: As with one.
        """
        found: list[ConfigDocument] = []
        with _translate_yaml_errors(text, name):
            loader = yaml.SafeLoader(text)
            while loader.check_node() and (node := loader.get_node()) is not None:
                lines: dict[Path, int] = {}
                found.append(cls(name, _Walk(loader, lines, name).value(node, ()), lines))
        return tuple(found)

    def find_written(self, path: Path) -> Path:
        """Return the path as the document has it: a section alone may stand for a list of it."""
        found: Path = ()
        node = self.root
        for part in path:
            if isinstance(part, int) and isinstance(node, Mapping):
                continue
            found = (*found, part)
            if isinstance(node, Mapping):
                node = node.get(part)
            elif isinstance(node, tuple) and isinstance(part, int) and part < len(node):
                node = node[part]
            else:
                node = None
        return found

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the nearest section around it that is written down."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def place(self, path: Path) -> str:
        """Return where people find a value: the file and its line, or the source that overrides the file."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.given:
                return self.given[path[:end]]
        return f"{self.name}:{self.line(path)}"


def format_path(path: Path) -> str:
    """Return the path as people write it: `links[0].topics.include[2]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@contextlib.contextmanager
def _translate_yaml_errors(text: str, name: str) -> Iterator[None]:
    """Raise errors of PyYAML as our own."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(name, error.problem or error.context or "", _line(error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _yaml_error(name, "it holds a character YAML does not allow", line) from None
    except RecursionError:
        raise _yaml_error(name, "it is nested too deeply", None) from None


class _Walk:
    """Converts YAML nodes into plain values, and records their lines."""

    def __init__(self, loader: yaml.SafeLoader, lines: dict[Path, int], name: str) -> None:
        self._loader = loader
        self._lines = lines
        self._name = name
        self._open: set[int] = set()
        self._values = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise _yaml_error(self._name, f"it holds more than {_VALUES_MAX} values, aliases counted", None)
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            hint = "Write the value out instead of pointing back with *."
            raise self._refusal(path, "contains itself", hint)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return tuple(self.value(item, (*path, i)) for i, item in enumerate(node.value))
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        try:
            scalar: object = self._loader.construct_object(node)
        except _CONSTRUCTION_ERRORS:
            message = "looks like a date, a number or a truth value, but is none"
            raise self._refusal(path, message, "Put it in quotes.") from None
        return scalar

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            # The text as written: an alias such as `no` or `1` is a name here, never a number.
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in values:
                hint = f"Keep one; the other is on line {self._lines[*path, key]}."
                self._lines[*path, key] = line
                raise self._refusal((*path, key), "is written twice", hint)
            self._lines[*path, key] = line
            values[key] = self.value(value_node, (*path, key))
        return values

    def _refusal(self, path: Path, message: str, hint: str) -> ConfigError:
        field, line = format_path(path), self._lines[path]
        return ConfigError(f"{self._name}:{line}: {field} {message}", field=field, line=line, hint=hint)


def _line(error: yaml.MarkedYAMLError) -> int | None:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark is not None else None


def _yaml_error(name: str, problem: str, line: int | None) -> ConfigError:
    where = name if line is None else f"{name}:{line}"
    # The message has only the error, never the text around it: that may be a password.
    return ConfigError(
        f"{where}: this is not YAML: {problem}",
        line=line,
        hint="Check the indentation, and put texts with special characters in quotes.",
    )
