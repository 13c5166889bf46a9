"""Naming sections of the file become namings, or are refused."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.model.naming import MirrorMakerNaming

LINK = """\
clusters: {{DC-X: {{bootstrap_servers: "x:1"}}, "{other}": {{bootstrap_servers: "y:1"}}}}
links:
- {{name: forth, source: DC-X, target: "{other}", topics: {{include: ["*"], naming: {naming}}}}}
"""


@pytest.mark.parametrize(("other", "naming"), [("DC.Y", "mm2"), ("DC-Y", "{mm2: {separator: '-'}}")])
def test_an_alias_that_holds_the_separator_is_refused(other: str, naming: str) -> None:
    """Where an alias ends could not be told from the name of a topic: alias and separator are named."""
    with pytest.raises(ConfigError, match=r"alias DC.[XY] holds the separator"):
        config.parse(LINK.format(other=other, naming=naming), environment={})


def test_aliases_with_other_marks_are_fine() -> None:
    """Those of MirrorMaker 2's own examples, with its default separator."""
    (link,) = config.parse(LINK.format(other="DC-Y", naming="mm2"), environment={}).links
    assert link.topics.naming == MirrorMakerNaming(source_alias="DC-X", target_alias="DC-Y")
    assert link.topics.naming.to_target("Topic_1") == "DC-X.Topic_1"
