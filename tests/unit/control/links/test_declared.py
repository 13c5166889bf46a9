"""Links of the file and declared ones, put together."""

from __future__ import annotations

import pytest

from isthmus.control.links.declared import Declared
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.declaration import Declaration, attachment
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import Author, changed
from isthmus.model.selection import TopicSettings

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=(f"{alias}:9092",)) for alias in ("east", "west"))
IDS = {"east": "id-of-east", "west": "id-of-west"}


def declaration(name: str, target: str = "west") -> Declaration:
    """A link from east."""
    values = {
        "source": {"cluster_id": IDS["east"], "alias": "east"},
        "target": {"cluster_id": IDS.get(target, target), "alias": target},
        attachment(NamespaceMap.parse(f"{name}-:{name}.")): True,
    }
    return Declaration(name=name, registers=changed((), values, Author(by="anna", at_ms=1, where="A")))


def test_a_link_of_the_file_wins_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It is run in place of the declared one of its name, once with a warning; others are run beside it, if the file
    has both their clusters.
    """
    written = Configuration(
        clusters=(EAST, WEST), links=(Link(name="orders", source=EAST, target=WEST, topics=TopicSettings()),)
    )
    links = {name: declaration(name) for name in ("orders", "clicks")}
    links["away"] = declaration("away", target="north")
    declared = Declared(ids=IDS, links=links)
    found = declared.over(written)
    assert [link.name for link in found.links] == ["orders", "clicks"]
    assert found.links[0] is written.links[0]
    assert found.declared == frozenset({"clicks"})
    assert declared.over(found).links == found.links
    told = [record.getMessage() for record in caplog.records]
    assert told == ["link orders of the file is run in place of the declared one of that name"]
