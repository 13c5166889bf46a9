"""Options of the data source that name a cluster, and those that nobody meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster, Secret, Security
from isthmus.spark.dataframes.options import GivenOptions, find_cluster

FILE = """\
clusters:
  east: {bootstrap_servers: "127.0.0.1:9192"}
  west: {bootstrap_servers: "127.0.0.1:9292"}
"""
NORTH = Cluster(alias="north", bootstrap_servers=("127.0.0.1:1",))


def test_a_cluster_is_that_of_the_file(tmp_path: Path) -> None:
    """The file is read where it is asked for, whatever is registered, and whatever the case of options."""
    path = tmp_path / "isthmus.yaml"
    path.write_text(FILE)

    found = find_cluster(GivenOptions({"Config": str(path), "CLUSTER": "west"}), {"west": NORTH})

    assert found.bootstrap_servers == ("127.0.0.1:9292",)


def test_without_a_file_a_cluster_is_a_registered_one() -> None:
    """By its alias."""
    assert find_cluster(GivenOptions({"cluster": "north"}), {"north": NORTH}) is NORTH


@pytest.mark.parametrize(
    ("options", "registered", "why"),
    [
        ({}, {"north": NORTH}, "option cluster of the data source: it is missing"),
        ({"cluster": "south"}, {"north": NORTH}, "no cluster 'south' is registered"),
        ({"cluster": "south"}, {}, "option config of the data source: it is missing"),
    ],
)
def test_a_cluster_that_is_not_known_is_refused(
    options: dict[str, str], registered: dict[str, Cluster], why: str
) -> None:
    """With what to do about it."""
    with pytest.raises(ConfigError, match=why) as caught:
        find_cluster(GivenOptions(options), registered)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "why", "hint"),
    [
        ("kafka.bootstrap.servers", "it has no meaning here", "options config"),
        ("kafka.security.protocol", "connections are not set by options", "only kafka.isolation.level"),
        ("subscribed", "there is no such option", "Did you mean subscribe"),
        ("colour", "there is no such option", "There are: kafka.isolation.level, subscribe"),
    ],
)
def test_options_that_nobody_reads_are_refused(given: str, why: str, hint: str) -> None:
    """Silence would be taken for consent."""
    options = GivenOptions({given: "x", "subscribe": "flights"})

    with pytest.raises(ConfigError, match=why) as caught:
        options.refuse_others(
            ["subscribe", "kafka.isolation.level"], {"kafka.bootstrap.servers": "See options config."}
        )
    assert hint in caught.value.hint


def test_a_password_shows_nowhere() -> None:
    """What Spark shows of a reader has no password."""
    from isthmus.spark.dataframes.reading import RowReader

    secured = Cluster(alias="a", bootstrap_servers=("h:1",), security=Security(username="u", password=Secret("canary")))
    assert "canary" not in repr(RowReader(clusters={"a": secured}, mode="records", names=("key",)))
