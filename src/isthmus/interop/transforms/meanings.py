"""What each of Kafka's transforms does, said to a composition. One function for each class.

The classes are those of Kafka's connect/transforms, with records as JsonConverter reads them without schemas: the names
of fields are those at the top.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from isthmus.interop.transforms.composing import Composition, Fields, quote
from isthmus.interop.transforms.routing import TargetNames
from isthmus.interop.transforms.steps import ChainStep, NotTranslated
from isthmus.model.links.transform import RecordPart

_DEFAULTS: Final = "replace.null.with.default"
_FIELD_KINDS: Final = frozenset({"MaskField", "ReplaceField", "InsertField", "HeaderFrom", "ValueToKey"})
_NUMBER_EMPTY: Final = "0"


class Occasion(enum.Enum):
    """For which records a step is done, apart from the names of topics."""

    ALWAYS = enum.auto()
    TOMBSTONES = enum.auto()
    VALUES = enum.auto()
    """All records but tombstones."""
    HEADER = enum.auto()
    """A condition on headers."""


class When(NamedTuple):
    """For which records a step is done: an expression that is never NULL, "" for all."""

    occasion: Occasion = Occasion.ALWAYS
    condition: str = ""


class Doing(NamedTuple):
    """A step that is done: to what, for which records, and the names of topics before it."""

    to: Composition
    step: ChainStep
    when: When
    names: TargetNames | None


def do(doing: Doing) -> None:
    """Do a step.

    :raises NotTranslated: It has no equivalent.
    """
    known = _MEANINGS.get(doing.step.kind) if doing.step.is_known else None
    if known is None:
        raise NotTranslated(f"Isthmus does not know what {doing.step.kind or 'a step without a type'} makes of records")
    if reads_fields(doing.step) and not _is_met(doing):
        return
    known(doing)


def reads_fields(step: ChainStep) -> bool:
    """Return whether a step works on fields, which records have to be decoded for."""
    return step.is_known and step.kind in _FIELD_KINDS


def takes_away(step: ChainStep) -> bool:
    """Return whether without a step records may come that it leaves out, or what it hides in them."""
    if step.is_known and step.kind == "HeaderFrom":
        return step.value("operation") != "copy"
    return not (step.is_known and step.kind in _ADDING)


def sets_headers(step: ChainStep) -> bool:
    """Return whether records have headers by this step that a later predicate may look at."""
    return step.is_known and step.kind in ("InsertHeader", "HeaderFrom")


def _is_met(doing: Doing) -> bool:
    """Return whether a step on fields does anything.

    :raises NotTranslated: Which records it is for cannot be said for fields.
    """
    occasion = doing.when.occasion
    if occasion is Occasion.HEADER:
        raise NotTranslated("it changes fields of those records that a predicate on headers picks")
    part = RecordPart.VALUE if doing.step.kind == "ValueToKey" else doing.step.part
    if part is RecordPart.KEY and occasion is not Occasion.ALWAYS:
        raise NotTranslated("it changes fields of keys of those records that a predicate on their values picks")
    # Tombstones have no fields.
    return occasion is not Occasion.TOMBSTONES


def _fields(doing: Doing) -> Fields:
    if doing.step.part is RecordPart.KEY:
        doing.to.require_key_that_came()
    return doing.to.fields[doing.step.part]


def _filter(doing: Doing) -> None:
    doing.step.require_keys()
    doing.to.leave_out(doing.when.condition or "true")


def _mask_field(doing: Doing) -> None:
    doing.step.require_keys("fields", "replacement", _DEFAULTS)
    _fields(doing).mask(_some(doing.step, "fields"), doing.step.setting("replacement").value)


def _replace_field(doing: Doing) -> None:
    step = doing.step
    step.require_keys("include", "exclude", "whitelist", "blacklist", "renames", _DEFAULTS)
    renames: dict[str, str] = {}
    for each in step.items("renames"):
        old, _, new = each.partition(":")
        if not old or not new or ":" in new:
            raise NotTranslated(f"its renames are no list of old:new: {each}")
        renames[old] = new
    include = step.items("include") or step.items("whitelist")
    exclude = step.items("exclude") or step.items("blacklist")
    _fields(doing).replace(include, exclude, renames)


def _insert_field(doing: Doing) -> None:
    step, made = doing.step, _fields(doing)
    keys = ("topic", "partition", "offset", "timestamp", "static")
    step.require_keys(*(f"{key}.field" for key in keys), "static.value", _DEFAULTS)
    for key in keys:
        name = step.value(f"{key}.field")
        if name:
            expression, empty = _insertion(key, doing)
            made.put(name.removesuffix("!") if name.endswith("!") else name.removesuffix("?"), expression, empty)


def _insertion(key: str, doing: Doing) -> tuple[str, str]:
    """Return the expression of what is inserted, and of the empty value of its type."""
    if key == "static":
        return quote(doing.step.setting("static.value").value), "''"
    if key == "topic":
        if doing.names is None:
            raise NotTranslated("it inserts the name of the topic at the target, which is unknown")
        return target_name(doing.names), "''"
    return {"partition": "partition", "offset": "offset", "timestamp": "unix_millis(timestamp)"}[key], _NUMBER_EMPTY


def target_name(names: TargetNames) -> str:
    """Return the expression of the name of a topic at the target."""
    parts = [quote(names.begin) if names.begin else "", "topic", quote(names.end) if names.end else ""]
    given = [each for each in parts if each]
    return f"concat({', '.join(given)})" if len(given) > 1 else "topic"


def _value_to_key(doing: Doing) -> None:
    doing.step.require_keys("fields", _DEFAULTS)
    doing.to.set_key(_some(doing.step, "fields"), passes_tombstones=doing.when.occasion is Occasion.VALUES)


def _extract_field(doing: Doing) -> None:
    doing.step.require_keys("field", "skip.missing.or.null", _DEFAULTS)
    if doing.step.part is not RecordPart.KEY or doing.when.occasion not in (Occasion.ALWAYS, Occasion.VALUES):
        raise NotTranslated("it makes one field the whole value")
    doing.to.extract_key(doing.step.value("field"))


def _header_from(doing: Doing) -> None:
    step, made = doing.step, _fields(doing)
    step.require_keys("fields", "headers", "operation", _DEFAULTS)
    fields, headers = _some(step, "fields"), _some(step, "headers")
    if len(fields) != len(headers):
        raise NotTranslated("it has not as many fields as headers")
    if step.value("operation") not in ("move", "copy"):
        raise NotTranslated("its operation is neither move nor copy")
    # All fields are read before any is moved.
    for header, expression in [(header, made.read(name)) for name, header in zip(fields, headers, strict=True)]:
        doing.to.set_header(header, expression, doing.when.condition)
    if step.value("operation") == "move":
        for name in fields:
            made.drop(name)


def _insert_header(doing: Doing) -> None:
    doing.step.require_keys("header", "value.literal")
    if not doing.step.value("header"):
        raise NotTranslated("it names no header")
    literal = quote(doing.step.value("value.literal"))
    doing.to.set_header(doing.step.value("header"), literal, doing.when.condition)


def _drop_headers(doing: Doing) -> None:
    doing.step.require_keys("headers")
    if doing.when.condition:
        raise NotTranslated("it drops headers of those records that a predicate picks")
    for name in _some(doing.step, "headers"):
        doing.to.drop_header(name)


def _convert_bytes(doing: Doing) -> None:
    step = doing.step
    if not is_plain_json(step):
        raise NotTranslated(
            "its converter is not JsonConverter with converter.schemas.enable=false: only JSON is decoded yet"
        )
    if doing.when.occasion is Occasion.HEADER:
        raise NotTranslated("it decodes those records that a predicate on headers picks")


def is_plain_json(step: ChainStep) -> bool:
    """Return whether a step reads or writes JSON without schemas."""
    kind, has_schemas = step.value("converter").rpartition(".")[2], step.value("converter.schemas.enable") or "true"
    return kind == "JsonConverter" and has_schemas.lower() == "false"


def _change_nothing(_doing: Doing) -> None:
    """Change nothing that records of bytes, or of JSON without schemas, have; or not the record itself."""


def _some(step: ChainStep, key: str) -> tuple[str, ...]:
    found = step.items(key)
    if not found:
        raise NotTranslated(f"its {key} are missing")
    return found


_MEANINGS: Final[Mapping[str, Callable[[Doing], None]]] = {
    "Filter": _filter,
    "MaskField": _mask_field,
    "ReplaceField": _replace_field,
    "InsertField": _insert_field,
    "ValueToKey": _value_to_key,
    "ExtractField": _extract_field,
    "HeaderFrom": _header_from,
    "InsertHeader": _insert_header,
    "DropHeaders": _drop_headers,
    "SetSchemaMetadata": _change_nothing,
    "ConvertFromBytes": _convert_bytes,
    "ConvertToBytes": _convert_bytes,
}
_ADDING: Final = frozenset({"InsertHeader", "HoistField", "SetSchemaMetadata"})
"""The steps without which records lack something and show nothing that was hidden: none puts something else in the
place of a field or key, as a date of which only the year stays.
"""
