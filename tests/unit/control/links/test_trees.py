"""What of trees is refused, rather than left out."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.control.links.trees import comparable
from isthmus.errors import PlanRefused

CLUSTERS = "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}}\n"


def test_copies_with_another_header_are_not_compared() -> None:
    """None of them is what it was made of; those of distributors that tell themselves by producer ids are."""
    text = f"{CLUSTERS}links: [{{name: l, source: a, target: b}}]\ntrees: [{{name: t, clusters: [a, b]}}]\n"
    links = config.parse(text).links
    assert comparable(links) == links
    with pytest.raises(PlanRefused, match=r"link t\.a\.1 writes copy flags into a header of records"):
        comparable(config.parse(text.replace("[a, b]", "[a, b], flags: header")).links)
