"""Links of the file and declared ones, put together."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError, Unreachable
from isthmus.memory.declared import Declared, Merged
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.problem import Problem
from isthmus.model.registers import Author, change_registers
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
    return Declaration(name=name, registers=change_registers((), values, Author(by="anna", at_ms=1, where="A")))


def test_a_link_of_the_file_wins_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It is run in place of the declared one of its name, once with a warning; others are run beside it, if the file
    has both their clusters.
    """
    written = Configuration(
        clusters=(EAST, WEST), links=(Link(name="orders", source=EAST, target=WEST, topics=TopicSettings()),)
    )
    links = {name: declaration(name) for name in ("orders", "clicks")}
    links["away"] = declaration("away", target="north")
    declared = Declared(ids=IDS, links=Merged(links))
    found = declared.over(written)
    assert [link.name for link in found.links] == ["orders", "clicks"]
    assert found.links[0] is written.links[0]
    assert found.declared == frozenset({"clicks"})
    assert declared.over(found).links == found.links
    told = [record.getMessage() for record in caplog.records]
    assert told == ["link orders of the file is run in place of the declared one of that name"]


def test_a_link_of_a_cluster_that_is_another_now_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It is not run between others than it was declared on: there is one warning, and whoever names it hears why. One
    of clusters that the file has not is left to others, without a warning.
    """
    written = Configuration(clusters=(EAST, WEST), links=())
    links = {"orders": declaration("orders"), "away": declaration("away", target="north")}
    declared = Declared(ids={**IDS, "west": "id-of-a-new-west"}, links=Merged(links))
    assert declared.over(declared.over(written)).links == ()
    (told,) = [record.getMessage() for record in caplog.records]
    why = "its target is cluster id-of-west (west), and west of the configuration is cluster id-of-a-new-west"
    assert told.startswith(f"link orders is not run: {why}")
    with pytest.raises(ConfigError) as refused:
        declared.over(written).link("orders")
    assert refused.value.message == f"link orders cannot be run: {why}"
    assert "isthmus link delete orders" in (refused.value.hint or "")
    with pytest.raises(ConfigError, match=r"its target, cluster north \(north\), is not in the configuration"):
        declared.over(written).link("away")
    assert declared.over(written).written == written
    behind = Declared(
        ids={"east": IDS["east"]}, away={"west": Problem("away", "", "ISTH-UNREACHABLE")}, links=Merged(links)
    )
    assert [link.name for link in behind.over(written).links] == ["orders"]


def test_whether_something_is_declared_is_for_its_clusters_to_tell() -> None:
    """Who answers knows; those that do not are named, and where none does that is why."""
    away = {"west": Problem("nobody listens", "Start it.", "ISTH-UNREACHABLE")}
    found = Declared(ids=IDS, away=away).unknown("link", ["orders"], "clicks", "Look.")
    assert isinstance(found, ConfigError)
    assert found.message == "no link clicks is declared on the clusters that answered; west did not answer"
    assert found.hint == "Declared are orders. Look."
    assert Declared(ids=IDS).unknown("link", [], "clicks", "Look.").hint == "None is declared. Look."
    none = Declared(away={**away, "east": Problem("no right", "Ask.", "ISTH-NOT-AUTHORIZED")})
    silent = none.unknown("link", [], "clicks", "Look.")
    assert isinstance(silent, Unreachable)
    assert silent.message.endswith("is declared: none of west, east answers: nobody listens")
    assert (silent.hint, silent.exit_code, silent.cluster) == ("Start it.", 10, "west")
    assert isinstance(Declared(ids=IDS).unknown("tree", [], "t", ""), ConfigError)
