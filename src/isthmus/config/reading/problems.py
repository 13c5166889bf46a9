"""The mistakes in a configuration, collected and described in plain words with the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isthmus.config.reading.document import ConfigDocument, Path, format_path
from isthmus.config.reading.keys import section_at
from isthmus.config.sections.schema import FabricSection
from isthmus.config.sections.section import Section
from isthmus.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. `message` continues the sentence that the path begins."""

    path: Path
    message: str
    hint: str


def refuse(problems: Iterable[Mistake], document: ConfigDocument) -> None:
    """Raise all problems as one error; without any, do nothing.

    :raises ConfigError: See `refusal`.
    """
    if found := list(problems):
        raise refusal(found, document)


def refusal(problems: Iterable[Mistake], document: ConfigDocument) -> ConfigError:
    """Return all problems, at least one, as one error in the order of their lines.

    Its `field` and `line` are those of the first.
    """
    written = [replace(problem, path=document.find_written(problem.path)) for problem in problems]
    found = sorted(written, key=lambda problem: document.line(problem.path))
    return ConfigError(
        "\n".join(
            f"{document.place(problem.path)}: {format_path(problem.path) or 'the document'} {problem.message}"
            for problem in found
        ),
        field=format_path(found[0].path),
        line=document.line(found[0].path),
        hint="\n".join(dict.fromkeys(problem.hint for problem in found)),
    )


def shape_problems(error: ValidationError, root: type[Section] = FabricSection) -> Iterator[Mistake]:
    """Yield the problems pydantic found in a `root`, without ever repeating a value: it may be a secret."""
    for detail in error.errors(include_url=False):
        # pydantic marks a map's key by an additional last part; the key itself is in the path already.
        path = detail["loc"][:-1] if detail["loc"][-1:] == ("[key]",) else detail["loc"]
        if detail["type"] == "extra_forbidden":
            yield unknown_key(path, root)
        elif detail["type"] == "missing":
            yield Mistake(path, "is missing", _about(path, root))
        else:
            yield Mistake(path, _wrong(detail), _about(path, root))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a mistaken one; `bootstrap.servers` is close, being Kafka's."""
    names = list(known)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower().replace(".", "_").replace("-", "_")
    return next(iter(get_close_matches(snake, names, n=1, cutoff=0.5)), None)


def unknown_key(path: Path, root: type[Section] = FabricSection) -> Mistake:
    """Return the mistake that the section around it does not have the key at the end of this path of a `root`."""
    section = section_at(path[:-1], root)
    known = [] if section is None else list(section.model_fields)
    near = nearest(str(path[-1]), known)
    listed = f"Known here: {', '.join(known)}." if known else f"{format_path(path[:-1])} has no keys of its own."
    return Mistake(path, "is not a known key", listed if near is None else f"Did you mean {near}? {listed}")


def _about(path: Path, root: type[Section]) -> str:
    """Return the purpose of the field at the path; for a list's item, that of the list."""
    names = [position for position, part in enumerate(path) if isinstance(part, str)]
    for position in reversed(names):
        section = section_at(path[:position], root)
        if section is not None and path[position] in section.model_fields:
            field = section.model_fields[str(path[position])]
            return f"{path[position]}: {field.description}"
    return "The configuration reference lists every key."


def _wrong(detail: ErrorDetails) -> str:
    words = _WORDS.get(detail["type"])
    if words is not None:
        return words(detail.get("ctx", {}), detail["input"])
    return "is wrong: " + detail["msg"][:1].lower() + detail["msg"][1:]


def _not_text(_: Mapping[str, object], given: object) -> str:
    return "must be text" if isinstance(given, dict | tuple) else "must be text: put it in quotes"


def _not_number(_: Mapping[str, object], given: object) -> str:
    return "must be a plain number: the key's name ends in its unit" if isinstance(given, str) else "must be a number"


_Words = Callable[[Mapping[str, object], object], str]
_WORDS: Final[Mapping[str, _Words]] = {
    "string_type": _not_text,
    "string_too_short": lambda _, __: "must not be empty",
    "too_short": lambda _, __: "must not be empty",
    "int_type": lambda _, __: "must be a whole number",
    "int_from_float": lambda _, __: "must be a whole number",
    "float_type": _not_number,
    "finite_number": lambda _, __: "must be a number",
    "bool_type": lambda _, __: "must be true or false",
    "tuple_type": lambda _, __: "must be a list",
    "dict_type": lambda _, __: "must be a section with keys of its own",
    "model_type": lambda _, __: "must be a section with keys of its own",
    "greater_than": lambda context, _: f"must be greater than {context['gt']}",
    "greater_than_equal": lambda context, _: f"must be at least {context['ge']}",
    "less_than_equal": lambda context, _: f"must be at most {context['le']}",
    "literal_error": lambda context, _: f"must be {context['expected']}",
    "value_error": lambda context, _: str(context["error"]),
}
