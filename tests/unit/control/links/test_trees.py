"""What of trees is refused, rather than left out."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.control.links.trees import mirrors
from isthmus.errors import PlanRefused

CLUSTERS = "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}}\n"


def test_distributors_are_not_compared() -> None:
    """Either side has what the other has not, by the very nature of a tree."""
    configuration = config.parse(
        f"{CLUSTERS}links: [{{name: l, source: a, target: b}}]\ntrees: [{{name: t, clusters: [a, b]}}]\n"
    )
    assert [link.name for link in mirrors(configuration.links[:1])] == ["l"]
    with pytest.raises(PlanRefused, match=r"link t\.a\.1 distributes for tree t"):
        mirrors(configuration.links)
