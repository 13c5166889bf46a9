"""The format of `links[].transform` in the configuration file."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from isthmus.config.sections.fields import Pattern, Text
from isthmus.config.sections.section import Section
from isthmus.model.links.transform import Decoding, OnError, RecordFormat

_DECODING: Final = Decoding()
_FORMATS: Final = tuple(each.value for each in RecordFormat)


class DecodingSection(Section):
    """How a key or a value is decoded. A format alone, such as `json`, is short for it without fields."""

    format: Literal["none", "utf8", "json", "avro", "protobuf"] = Field(
        _DECODING.format.value,
        description=(
            "json: an object, whose fields can be read, set and dropped; avro: a record by the schema of the source's "
            "schema registry whose id it begins with; utf8: a text; none: bytes. protobuf is not possible yet."
        ),
    )
    fields: Text | None = Field(
        None,
        description=(
            "For json, the fields and their types, as Spark writes a schema: `country STRING, amount DOUBLE`. Without "
            "it the fields are those that a record has."
        ),
    )

    subjects: tuple[Text, ...] = Field(
        (),
        description=(
            "For avro, the subjects under which the schemas are registered; by default TOPIC-key or TOPIC-value."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _read_word(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        if given not in _FORMATS:
            raise ValueError(f"must be {', '.join(_FORMATS)}, or a section")
        return {"format": given}


class DecodeSection(Section):
    """What keys and values are decoded from before expressions see them, and encoded to again: bytes by default."""

    key: DecodingSection = Field(DecodingSection(), description="The key: a format, or a section as below.")
    value: DecodingSection = Field(DecodingSection(), description="The value: a format, or a section as below.")


class TransformSection(Section):
    """How records are changed on the way (docs/transforms.md): a mapping, or a list of mappings with `topics` each, of
    which the first that matches a topic is for it.
    """

    topics: tuple[Pattern, ...] = Field(
        (), description="The topics of the source that it is for, written as in `topics.include`; all without it."
    )
    decode: DecodeSection = Field(DecodeSection(), description="What keys and values are, for expressions.")
    where: Text | None = Field(
        None, description="An expression in Spark SQL: records for which it is not true are left out."
    )
    set: dict[str, Text] = Field(
        {},
        description=(
            "By the path of what is set, an expression for its value: `{value.email: 'sha2(value.email, 256)'}`. Paths "
            "are key, value, a field in one of them, headers.NAME and timestamp. An expression that is the path of a "
            "field alone copies it to another one as it stands."
        ),
    )
    drop: tuple[str, ...] = Field((), description="The paths of fields and headers that are left out.")
    keep: tuple[str, ...] = Field(
        (), description="The paths of the only fields that stay of a key or value that came; `set` adds to them."
    )
    mask: tuple[str, ...] = Field(
        (),
        description=(
            'The paths of fields that become empty, each as its type has it: "", 0, false, [] or {}. This is done last.'
        ),
    )
    python: Text | None = Field(
        None,
        description=(
            "In place of expressions, a function of your own, as `module:function`, that gets batches of records and "
            "returns them changed."
        ),
    )
    version: Text | None = Field(
        None,
        description=(
            "Any text. The source of the function counts by itself: change this if it does something else for another "
            "reason."
        ),
    )
    on_error: Literal["stop", "skip", "dead-letter"] = Field(
        OnError.STOP.value,
        description=(
            "The treatment of a record on which it fails: stop the partition before it; skip it, and count it; or keep "
            "it as it is in a topic for dead letters at the target."
        ),
    )
