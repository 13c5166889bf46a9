"""The section of distribution trees."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from isthmus.config.fields import GroupPatternText, Name, Pattern, Text
from isthmus.config.section import Section
from isthmus.model.copyflags import FlagsHeader

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
    topics: tuple[Pattern, ...] = Field((), description="What is distributed: names, prefixes and /regexes/.")
    exclude: tuple[Pattern, ...] = Field((), description="What to leave out of it. Exclusion wins.")
    groups: tuple[GroupPatternText, ...] = Field((), description="The consumer groups whose positions are distributed.")
    flags: Literal["producer-id", "header"] = Field(
        "producer-id",
        description=(
            "Where copy flags are kept: producer-id in the producer ids of whole batches, which pass as they are; "
            "header in a header of each record, as Axual's distributors read and write it."
        ),
    )
    header: FlagsHeaderSection = Field(FlagsHeaderSection(), description="That header.")
