"""Records that a transform cannot change: kept as dead letters, shown and replayed, as people and scripts do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell

pytestmark = pytest.mark.integration

RULES = '''
import json
import pyarrow as pa

def {function}(rows):
    """Orders in capital letters; those of no country are left out."""
    kept, values = [], []
    for place, value in enumerate(rows.column("value").to_pylist()):
        order = json.loads(value{more})
        if order["country"]:
            kept.append(place)
            values.append(json.dumps(order).upper().encode())
    return rows.take(pa.array(kept, pa.int32())).set_column(1, "value", pa.array(values, pa.binary()))
'''
WRONG, ROTTEN = b'{"country": "fr"', b"\xff"


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link changes orders by a function that fails for some of them."""
    (tmp_path / "rules.py").write_text(RULES.format(function="clean", more=""))
    made = Shell(tmp_path, east, west, topic("letters"))
    made.links[0]["transform"] = {"python": "rules:clean", "on_error": "dead-letter"}
    made.configure()
    orders = f"{made.stem}.orders"
    topics.create(east, orders, partitions=2)
    for partition in range(2):
        values = [b'{"country": "de"}', WRONG, b'{"country": ""}', ROTTEN, b'{"country": "it"}']
        given = [Given(b"%d" % n, value, [("h", b"1")], topics.SEPTEMBER + n) for n, value in enumerate(values)]
        topics.produce(east, orders, given, partition=partition)
    return made


def test_records_that_fail_are_dead_letters(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """The plan names their topic; a consumer finds them there as they were, with their place and the reason, once."""
    orders = f"{shell.stem}.orders"
    where = dead_letters_of(shell.stem, TargetTopic(orders))
    (planned,) = shell.run("plan")["links"][0]["topics"]
    assert planned["dead_letters"] == {"topic": where, "partitions": 0}

    for _ in range(2):
        assert shell.run("run", "--until", "caught-up")["caught_up"]

    assert shell.run("plan")["links"][0]["topics"][0]["dead_letters"] == {"topic": where, "partitions": 2}
    sent, got, letters = (
        oracle.records(cluster.bootstrap_servers, name, "read_committed", partitions=2)
        for cluster, name in ((east, orders), (west, orders), (west, where))
    )
    for partition in range(2):
        assert [each.value for each in got[partition]] == [b'{"COUNTRY": "DE"}', b'{"COUNTRY": "IT"}']
        failed = [each for each in sent[partition] if each.value in (WRONG, ROTTEN)]
        for before, letter in zip(failed, letters[partition], strict=True):
            assert (letter.key, letter.value, letter.timestamp) == (before.key, before.value, before.timestamp)
            assert letter.headers[:1] == before.headers
            said = {name: (value or b"").decode() for name, value in letter.headers[1:]}
            assert (said["isthmus.cluster"], said["isthmus.topic"]) == ("east", orders)
            assert (int(said["isthmus.partition"]), int(said["isthmus.offset"])) == (partition, before.offset)
            assert said["isthmus.transform"] == planned["transform"]["digest"]
        assert "JSONDecodeError" in json.dumps([(n, str(v)) for n, v in letters[partition][0].headers])
