"""The format of `links[].topics` in the configuration file, and of names at the target."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from isthmus.config.sections.fields import Moment, Pattern, Text
from isthmus.config.sections.section import Section

_NAMINGS: Final[dict[str, dict[str, object]]] = {"identity": {}, "mm2": {"mm2": {}}}


class TemplateNamingSection(Section):
    """Names taken apart and put together again."""

    source: Text = Field(description="How names at the source are made, such as `{tenant}-{instance}-{env}-{topic}`.")
    target: Text = Field(description="How they are made at the target; placeholders may be left out.")


class NamingSection(Section):
    """Other names at the target, prefix for prefix or by templates. By default names stay as they are: `identity`."""

    source_prefix: str = Field("", description="The prefix of names at the source; other names are not carried.")
    target_prefix: str = Field("", description="The prefix that replaces it at the target.")
    template: TemplateNamingSection | None = Field(None, description="Names made by templates.")

    @model_validator(mode="before")
    @classmethod
    def _read_word(cls, given: object) -> object:
        words: dict[str, dict[str, object]] = {word: section for word, section in _NAMINGS.items() if word in cls.words}
        if not isinstance(given, str):
            return given
        if given not in words:
            raise ValueError(f"must be {' or '.join(words)}, or a section")
        return words[given]

    words: ClassVar[tuple[str, ...]] = ("identity",)


class MirrorMakerNamingSection(Section):
    """`east.orders`, as MirrorMaker 2's DefaultReplicationPolicy names topic `orders` of cluster `east`."""

    separator: Text = Field(".", description="The text between alias and name (replication.policy.separator).")


class TopicNamingSection(NamingSection):
    """Other names for topics at the target: prefix for prefix, or one of the other ways. `identity` and `mm2` alone are
    short for all their defaults.
    """

    words: ClassVar[tuple[str, ...]] = ("identity", "mm2")

    mm2: MirrorMakerNamingSection | None = Field(None, description="Names as MirrorMaker 2 makes them.")
    python: Text | None = Field(
        None,
        description=(
            "A class of your own, as `module:Class`, that is made without arguments and has `to_target` and "
            "`to_source`: a name in, a name or None out."
        ),
    )


class TopicsSection(Section):
    """The topics of a link. Names starting with `__` are never mirrored, nor is `_schemas`. A list alone, as a tree has
    it, is short for `include`.
    """

    include: tuple[Pattern, ...] = Field(
        (),
        description=(
            "Topics to mirror: a name, a prefix with a trailing *, or a regular expression between "
            "slashes that has to match the whole name. Nothing matches by default."
        ),
    )
    exclude: tuple[Pattern, ...] = Field((), description="Exceptions, written in the same way. Exclusion wins.")
    naming: TopicNamingSection = Field(
        TopicNamingSection(),
        description="The names at the target: `identity`, `mm2`, or a section as below (docs/naming.md).",
    )
    offsets: Literal["same", "mapped", "auto"] = Field(
        "same",
        description=(
            "The offsets at the target: same are those of the source, and topics that cannot have them are refused; "
            "mapped are the next offsets there, beside existing records; auto is same if that is possible, else mapped "
            "(docs/offsets.md)."
        ),
    )
    start: Moment = Field(
        "earliest",
        description=(
            "Where mapped topics begin: earliest, latest, or a point in time such as `2026-01-01T08:30` or `2h` ago."
        ),
    )
    remote: Literal["copy", "leave"] = Field(
        "copy",
        description=(
            "The treatment of records that only a remote tier of the source holds (KIP-405): copy reads them like any "
            "others; leave begins where the log begins on its brokers' disks (docs/offsets.md)."
        ),
    )
    replication_factor: Annotated[int, Field(ge=1, le=32767)] | None = Field(
        None,
        description=(
            "How many replicas topics get that are created at the target. By default as many as at the source, as far "
            "as the target has brokers. Topics that are there keep theirs."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, given: object) -> object:
        return {"include": given} if isinstance(given, list | tuple) else given
