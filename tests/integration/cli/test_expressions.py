"""A link whose transform has expressions of Spark SQL: planned, tried, refused and run, as people and scripts do it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isthmus.local import LocalCluster
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell

pytestmark = pytest.mark.integration

COUNTRIES = ("DE", "US", "FR")
TRANSFORM: dict[str, Any] = {
    "decode": {"value": "json"},
    "where": "value IS NULL OR value.country IN ('DE', 'FR')",
    "set": {
        "value.email": "sha2(value.email, 256)",
        "headers.origin": "concat('east-', partition)",
        "key": "concat('id-', value.id)",
    },
    "drop": ["value.note", "headers.h"],
}


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link changes orders by expressions, and copies others as they are."""
    made = Shell(tmp_path, east, west, topic("expressions"))
    made.links[0]["transform"] = [{"topics": [f"{made.stem}.orders"], **copy.deepcopy(TRANSFORM)}]
    made.configure()
    for name in ("orders", "plain"):
        topics.create(east, f"{made.stem}.{name}")
        topics.produce(east, f"{made.stem}.{name}", [order(n) for n in range(300)])
    return made


def order(number: int) -> Given:
    value = {
        "id": number,
        "country": COUNTRIES[number % 3],
        "email": f"{number}@example.org",
        "price": 1.10,
        "note": "x",
    }
    data = None if number % 10 == 9 else json.dumps(value).encode()
    return Given(b"%d" % number, data, [("h", b"1")], topics.SEPTEMBER + number)


def test_expressions_are_tried_and_a_mistake_is_refused_before_anything_is_copied(
    shell: Shell, east: LocalCluster, west: LocalCluster
) -> None:
    """Spark's own message says what is wrong with an expression, and with a record for which it fails."""
    orders = f"{shell.stem}.orders"
    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--from-offset", "294")
    assert [each["result"] for each in found["records"]] == [
        "changed",
        "left out",
        "changed",
        "changed",
        "left out",
        "changed",
    ]
    first, tombstone = found["records"][0]["after"], found["records"][-1]["after"]
    assert json.loads(first["value"])["country"] == "DE"
    assert '"price": 1.1' in first["value"]
    assert (first["key"], first["headers"]) == ("id-294", [{"key": "origin", "value": "east-0"}])
    assert (tombstone["value"], tombstone["key"]) == (None, None)

    assert found["unfound"] == []

    strange = [
        Given(b"k", value, [], topics.SEPTEMBER + 999) for value in (b"{", b'{"country": "DE", "email": "\xff"}')
    ]
    topics.produce(east, orders, strange)
    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--from-offset", "300", code=1)
    assert "no JSON" in found["records"][0]["reason"]
    assert "no UTF-8" in found["records"][1]["reason"]

    shell.links[0]["transform"][0]["drop"].append("value.Note")
    shell.links[0]["transform"][0]["set"]["value.ratio"] = "1 / (value.id - 294)"
    shell.configure()
    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--from-offset", "294", "--limit", "4", code=1)
    assert [each["result"] for each in found["records"]] == ["failed", "left out", "changed", "changed"]
    assert found["unfound"] == ["value.Note"]
    assert "DIVIDE_BY_ZERO" in found["records"][0]["reason"]

    shell.links[0]["transform"][0]["set"] = {"headers.whole": "md5(to_json(value))"}
    shell.configure()
    shell.run("transform", "try", shell.stem, "--topic", orders, code=2)

    shell.links[0]["transform"][0] = {"topics": [orders], **copy.deepcopy(TRANSFORM)}
    shell.links[0]["transform"][0]["decode"] = {"value": {"format": "json", "fields": "country STRIN, id INT"}}
    shell.configure()
    refused, plain = shell.run("plan", code=1)["links"][0]["topics"]
    assert (refused["mode"], plain["mode"]) == ("refused", "identity")
    assert "decode.value.fields: " in refused["reasons"][0]["message"]
    assert "STRIN" in refused["reasons"][0]["message"]
    shell.run("transform", "try", shell.stem, "--topic", orders, code=2)

    shell.links[0]["transform"][0] = {"topics": [orders], **copy.deepcopy(TRANSFORM)}
    shell.links[0]["transform"][0]["where"] = "value.country = nope(1)"
    shell.configure()
    assert "nope" in shell.run("plan", code=1)["links"][0]["topics"][0]["reasons"][0]["message"]
    shell.run("run", "--until", "caught-up", code=2)
    assert [oracle.records(west.bootstrap_servers, f"{shell.stem}.{name}") for name in ("orders", "plain")] == [
        [[]],
        [[]],
    ]


def test_a_link_with_expressions_runs(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """Consumers at the target see each record once, in order, as Spark's SQL makes it."""
    orders = f"{shell.stem}.orders"
    outcome = shell.run("run", "--until", "caught-up")

    assert outcome["caught_up"]
    (sent,), (got,) = (oracle.records(each.bootstrap_servers, orders) for each in (east, west))
    wanted = [each for each in sent if each.value is None or b'"US"' not in each.value]
    assert [each.offset for each in got] == list(range(len(wanted)))
    assert [each.timestamp for each in got] == [each.timestamp for each in wanted]
    for before, after in zip(wanted, got, strict=True):
        assert list(after.headers) == [("origin", b"east-0")]
        if before.value is None:
            assert (after.key, after.value) == (None, None)
            continue
        known, changed = json.loads(before.value), json.loads(after.value or b"")
        assert after.key == b"id-%d" % known["id"]
        assert len(changed["email"]) == 64
        assert changed == {**{name: held for name, held in known.items() if name != "note"}, "email": changed["email"]}
    oracle.assert_same(east, west, f"{shell.stem}.plain")
    assert shell.run("run", "--until", "caught-up")["records"] == 0
    (verdict,) = shell.run("verify")
    assert (verdict["equal"], verdict["topics"][0]["partitions"][0]["filtered"]) == (True, len(sent) - len(wanted))
