"""The section of distribution trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from isthmus.config.sections.fields import GroupPatternText, Name, Pattern, Text
from isthmus.config.sections.section import Section
from isthmus.model.copyflags import FlagsHeader
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.link import DataGapPolicy

_HEADER: Final = FlagsHeader()


class FlagsHeaderSection(Section):
    """The record header that holds copy flags, for `flags: header`."""

    name: Text = Field(_HEADER.name, description="The header's key.")
    width_bytes: Annotated[int, Field(ge=1, le=8)] = Field(
        _HEADER.width_bytes, description="Its width: eight levels for each byte."
    )


class TreeSection(Section):
    """A distribution tree: producers on all clusters, and every message once on every cluster (docs/trees.md)."""

    name: Name = Field(description="The tree's name. Unique.")
    clusters: Any = Field(
        description=(
            "Nested lists of aliases, such as `[[c1, c2], [c3, c4]]`. A node that states its level is written as "
            "`{level: 3, clusters: [...]}`; others get their height."
        )
    )
    topics: tuple[Pattern, ...] = Field(
        (),
        description=(
            "The topics that are distributed: names, prefixes and /regexes/, as a list; or as a link has it, "
            "`{include: [...]}`, "
            "with `exclude` beside that."
        ),
    )
    exclude: tuple[Pattern, ...] = Field((), description="Names to leave out of it. Exclusion wins.")
    groups: tuple[GroupPatternText, ...] = Field((), description="The consumer groups whose positions are distributed.")
    margin_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        GroupSettings().margin_s,
        description=(
            "Messages that are younger than the record at a group's position by less than this are read again on "
            "another cluster: "
            "messages have to come from any cluster to any other in that time."
        ),
    )
    offset_flags: Literal["producer-id", "metadata"] = Field(
        "producer-id",
        description=(
            "Where copy flags of positions are kept: producer-id in the producer id of their commits; metadata in "
            "front of the metadata that consumers write, as Axual's distributors do it."
        ),
    )
    flags: Literal["producer-id", "header"] = Field(
        "producer-id",
        description=(
            "Where copy flags are kept: producer-id in the producer ids of whole batches, which pass as they are; "
            "header in a header of each record, as Axual's distributors read and write it."
        ),
    )
    switch_after_s: Annotated[float, Field(ge=30, allow_inf_nan=False)] | None = Field(
        None,
        description=(
            "If a target does not answer for so long, the process that runs the distributor switches to another leaf "
            "of its subtree. Without it, `isthmus tree switch --force` is needed."
        ),
    )
    on_data_gap: DataGapPolicy = Field(
        "stop",
        description=(
            "The treatment of a partition whose source deleted messages before they were copied, as when a target was "
            "away for longer than they are retained: stop it, or record the gap and continue behind it."
        ),
    )
    header: FlagsHeaderSection = Field(FlagsHeaderSection(), description="The header, for `flags: header`.")

    @model_validator(mode="before")
    @classmethod
    def _read_topics(cls, given: object) -> object:
        """Take topics as a link has them, too."""
        topics = given.get("topics") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or not isinstance(topics, Mapping) or topics.keys() - {"include", "exclude"}:
            return given
        if "exclude" in topics and "exclude" in given:
            raise ValueError("has exceptions twice: in topics.exclude and in exclude")
        beside = {"exclude": topics["exclude"]} if "exclude" in topics else {}
        return {**given, "topics": topics.get("include", ()), **beside}
