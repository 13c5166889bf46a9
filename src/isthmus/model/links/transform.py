"""How a link changes records on the way: one transform for the topics that it names, and what that says of a record.

The parts of a record are written as people name them, in expressions as well:

    key, value            the bytes, or what they are decoded to
    value.address.city    a field of a decoded value; value.`a.b` if a name has dots
    headers.trace-id      the header of that name: all that follows the first dot
    timestamp             the record's time

Topic, partition and offset can be read in expressions, and are nothing that a transform changes.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, Self

from isthmus.errors import ConfigError
from isthmus.model.onerror import OnError as OnError
from isthmus.model.recordfunction import RecordFunction as RecordFunction
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import PlainValue, computed_field, texts

_DIGEST_CHARACTERS: Final = 16
_NAME: Final = r"(?:`[^`]+`|[^\W\d][\w-]*)"
_FIELDS: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_FIELD: Final = re.compile(_NAME)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_UNSTEADY: Final = re.compile(
    r"(?<![\w.`])(?:(rand|random|randn|randstr|uniform|uuid|shuffle|now|curdate|unix_timestamp|"
    r"monotonically_increasing_id|spark_partition_id)\s*\(|(current_timestamp|localtimestamp|current_date|current_time)\b)",
    re.IGNORECASE,
)
_FIELD_READ: Final = re.compile(r"(?<![\w.`])(key|value)\s*[.:\[]", re.IGNORECASE)
_PATHS_HINT: Final = "Name key, value, a field such as value.address.city, headers.NAME or timestamp."


class RecordPart(enum.StrEnum):
    """The parts of a record that a transform may change."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"


_FIXED: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class RecordPath:
    """A part of a record, or a field in its key or value (each name on the way), or the header of a name."""

    part: RecordPart
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a path as people write it; `str` gives it back.

        :raises ConfigError: It names nothing that a transform can change.
        """
        word, dot, rest = text.partition(".")
        if word in _FIXED:
            raise ConfigError(
                f"{text!r} cannot be changed: records keep their topic, partition and order",
                hint="topics.naming gives topics other names; a transform changes key, value, headers and timestamp.",
            )
        if word not in set(RecordPart):
            near = get_close_matches(word.lower(), [str(each) for each in RecordPart], n=1)
            hint = f"Did you mean {near[0]}? {_PATHS_HINT}" if near else _PATHS_HINT
            raise ConfigError(f"{text!r} is no part of a record", hint=hint)
        part = RecordPart(word)
        if part is RecordPart.TIMESTAMP and dot:
            raise ConfigError(f"{text!r}: a timestamp has no fields", hint="Write timestamp.")
        if part is RecordPart.HEADERS:
            if not rest:
                raise ConfigError(f"{text!r} names no header", hint="Write headers.NAME, such as headers.origin.")
            return cls(part, (_bare(rest),))
        if dot and _FIELDS.fullmatch(rest) is None:
            raise ConfigError(f"{text!r} names no field", hint=f"Put odd names in `backticks`. {_PATHS_HINT}")
        return cls(part, tuple(map(_bare, _FIELD.findall(rest))))

    @property
    def is_field(self) -> bool:
        """Whether it lies in a key or value, which has to be decoded."""
        return bool(self.names) and self.part is not RecordPart.HEADERS

    def overlaps(self, other: RecordPath) -> bool:
        """Return whether one of both is the other one, or lies in it."""
        common = min(len(self.names), len(other.names))
        return self.part is other.part and self.names[:common] == other.names[:common]

    def __str__(self) -> str:
        if self.part is RecordPart.HEADERS:
            return ".".join((self.part, *self.names))
        return ".".join((self.part, *(each if _FIELD.fullmatch(each) else f"`{each}`" for each in self.names)))


def _bare(name: str) -> str:
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] == "`" else name


class RecordFormat(enum.StrEnum):
    """What the bytes of a key or value are decoded from, and encoded to again."""

    NONE = "none"
    """They stay bytes."""
    UTF8 = "utf8"
    JSON = "json"
    AVRO = "avro"
    """By the schema whose id the bytes begin with, of the source's schema registry."""
    PROTOBUF = "protobuf"

    @property
    def has_fields(self) -> bool:
        return self not in (RecordFormat.NONE, RecordFormat.UTF8)

    @property
    def has_schema(self) -> bool:
        """Whether a schema registry has the schemas."""
        return self in (RecordFormat.AVRO, RecordFormat.PROTOBUF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a key or value is decoded. `fields` are those of JSON, as Spark's DDL writes them, "" for all that is there,
    whatever it is. `subjects` are those of schemas in the source's registry, by default that of the topic.
    """

    format: RecordFormat = RecordFormat.NONE
    fields: str = ""
    subjects: tuple[str, ...] = ()


_BYTES: Final = Decoding()


@dataclass(frozen=True, slots=True)
class PartAssignment:
    """A part of a record that gets the value of an expression in Spark SQL."""

    path: Annotated[RecordPath, str]
    expression: str

    @property
    def copied(self) -> RecordPath | None:
        """The field that it copies, if the expression is nothing but the path of one, and it sets a field."""
        if not self.path.is_field:
            return None
        try:
            found = RecordPath.parse(self.expression.strip())
        except ConfigError:
            return None
        return found if found.is_field else None


def _by_path(assignments: Iterable[PartAssignment]) -> Mapping[str, str]:
    return {str(each.path): each.expression for each in assignments}


class TransformWay(enum.StrEnum):
    """Where records are changed."""

    PYTHON = "python"
    """By a Python function, within the task that copies them."""
    SQL = "sql"
    """By expressions that Spark's SQL evaluates, between reading and writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform(PlainValue):
    """What is done with the records of some topics, those that `topics` match, or all if there are none.

    Records for which `where` is not true are left out; all assignments of `sets` see the record as it came, then `drop`
    leaves fields and headers out, or `keep` names the only fields that stay of those that came. At last `mask` empties
    fields. A `python` function does all of that by itself. `version` is the user's: it is changed with what the
    function does.
    """

    topics: Annotated[tuple[TopicPattern, ...], texts] = ()
    key: Decoding = Decoding()
    value: Decoding = Decoding()
    where: str = ""
    sets: Annotated[tuple[PartAssignment, ...], "set", _by_path] = ()
    drop: Annotated[tuple[RecordPath, ...], texts] = ()
    keep: Annotated[tuple[RecordPath, ...], texts] = ()
    mask: Annotated[tuple[RecordPath, ...], texts] = ()
    python: Annotated[RecordFunction | None, str] = None
    version: str = ""
    on_error: OnError = OnError.STOP

    def matches(self, topic: str) -> bool:
        """Return whether it is for a topic of the source, as far as earlier transforms of its link are not."""
        return not self.topics or any(pattern.matches(topic) for pattern in self.topics)

    def decoding(self, part: RecordPart) -> Decoding:
        """Return how a part is decoded."""
        return {RecordPart.KEY: self.key, RecordPart.VALUE: self.value}.get(part, _BYTES)

    @property
    def has_schemas(self) -> bool:
        """Whether it decodes anything by the schemas of a registry."""
        return self.key.format.has_schema or self.value.format.has_schema

    @property
    def way(self) -> TransformWay | None:
        """Where records are changed, `None` if it leaves them as they are."""
        if self.python is not None:
            return TransformWay.PYTHON
        return TransformWay.SQL if self.where or self.sets or self.drop or self.keep or self.mask else None

    @property
    def is_change(self) -> bool:
        return self.way is not None

    def is_copy(self, assignment: PartAssignment) -> bool:
        """Return whether an assignment copies a field as it stands in JSON: where types are given, it has its type."""
        copied = assignment.copied
        decoding = None if copied is None else self.key if copied.part is RecordPart.KEY else self.value
        return decoding is not None and decoding.format is RecordFormat.JSON and not decoding.fields

    @computed_field
    def digest(self) -> str:
        """Its generation: another text as soon as it may make other records. Which topics it is for, and the folder of
        the file, do not count; nor does the order of assignments. That of a function's source stands behind it.
        """
        source = None if self.python is None else self.python.source
        return self._written_digest() if source is None else f"{self._written_digest()}-{source.digest}"

    def is_generation(self, digest: str) -> bool:
        """Return whether it may be of this generation: the source of a function is known neither everywhere, nor to
        runs of earlier versions.
        """
        if self.python is None or self.python.source is None or "-" not in digest:
            return digest.partition("-")[0] == self._written_digest()
        return digest == self.digest

    def _written_digest(self) -> str:
        said = {
            "key": [self.key.format, self.key.fields, *self.key.subjects],
            "value": [self.value.format, self.value.fields, *self.value.subjects],
            "where": self.where,
            "set": sorted([str(each.path), each.expression] for each in self.sets),
            "drop": sorted(map(str, self.drop)),
            "python": None if self.python is None else str(self.python),
            "version": self.version,
            "on_error": self.on_error,
            # These came later: without them the generation stays the same one.
            **({"keep": sorted(map(str, self.keep))} if self.keep else {}),
            **({"mask": sorted(map(str, self.mask))} if self.mask else {}),
            **({"copies": True} if any(map(self.is_copy, self.sets)) else {}),
        }
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]

    @property
    def described(self) -> str:
        """What it does, in a few words."""
        if self.python is not None:
            return f"by {self.python}"
        parts = (
            f"where {self.where}" if self.where else "",
            f"sets {', '.join(str(each.path) for each in self.sets)}" if self.sets else "",
            f"drops {', '.join(map(str, self.drop))}" if self.drop else "",
            f"keeps {', '.join(map(str, self.keep))}" if self.keep else "",
            f"masks {', '.join(map(str, self.mask))}" if self.mask else "",
        )
        return "; ".join(filter(None, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSummary:
    """A transform in short: where it changes records, what it does, in words, and what becomes of those for which it
    fails.
    """

    digest: str
    way: TransformWay | None
    described: str
    on_error: OnError


def summarize_transform(transform: Transform) -> TransformSummary:
    """Return a transform in short."""
    return TransformSummary(
        digest=transform.digest, way=transform.way, described=transform.described, on_error=transform.on_error
    )


def transform_for(transforms: Iterable[Transform], topic: str) -> Transform | None:
    """Return the transform of a topic of the source: the first that matches. `None` if its records stay as they are."""
    found = next((each for each in transforms if each.matches(topic)), None)
    return found if found is not None and found.is_change else None


def unsteady_names(transform: Transform) -> tuple[str, ...]:
    """Return the functions in the expressions of a transform that give another result each time, as far as their text
    shows: the time and chance. Of a Python function nothing is known.
    """
    written = (transform.where, *(each.expression for each in transform.sets))
    found = (match for text in written for match in _UNSTEADY.findall(_QUOTED.sub(" ", text)))
    return tuple(sorted({"".join(match).lower() for match in found}))


def parts_with_fields(expression: str) -> tuple[RecordPart, ...]:
    """Return the parts whose fields an expression reads, as far as its text shows: texts and comments in it aside."""
    found = {RecordPart(each.lower()) for each in _FIELD_READ.findall(_QUOTED.sub(" ", expression))}
    return tuple(sorted(found))
