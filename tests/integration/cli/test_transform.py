"""A link whose transform is in the file: planned, tried, run and shown, as people and scripts do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus import config
from isthmus.errors import PlanRefused
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from testing.groups.consumers import await_position, commit
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell

pytestmark = pytest.mark.integration

RULES = '''
import json
import pyarrow as pa

def clean(rows):
    """Orders of two countries, without their notes."""
    kept, values = [], []
    for place, value in enumerate(rows.column("value").to_pylist()):
        order = json.loads(value)
        if order["country"] in ("DE", "FR"):
            order.pop("note", None)
            kept.append(place)
            values.append(json.dumps(order).encode())
    return rows.take(pa.array(kept, pa.int32())).set_column(1, "value", pa.array(values, pa.binary()))
'''
HANGING = """
import time

def hang(rows):
    time.sleep(3600)
"""
COUNTRIES = ("DE", "US", "FR")


@pytest.fixture
def shell(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Shell:
    """A shell whose link changes orders by a function that lies beside the file, and copies others as they are."""
    (tmp_path / "rules.py").write_text(RULES)
    made = Shell(tmp_path, east, west, topic("transform"))
    made.links[0]["groups"] = {"include": [f"{made.stem}*"], "way": "mapped"}
    made.links[0]["transform"] = [{"topics": [f"{made.stem}.orders"], "python": "rules:clean"}]
    made.configure()
    for name in ("orders", "plain"):
        topics.create(east, f"{made.stem}.{name}")
        topics.produce(east, f"{made.stem}.{name}", [order(n) for n in range(30)])
    return made


def order(number: int) -> Given:
    value = json.dumps({"id": number, "country": COUNTRIES[number % 3], "note": "private"}).encode()
    return Given(b"%d" % number, value, [("h", b"1")], topics.SEPTEMBER + number)


def test_a_transform_is_planned_and_tried(shell: Shell, east: LocalCluster) -> None:
    """What is changed has mapped offsets, what is not keeps them; nothing is written. A record that fails is named."""
    orders = f"{shell.stem}.orders"
    changed, plain = shell.run("plan")["links"][0]["topics"]
    assert (changed["mode"], plain["mode"]) == ("mapped", "identity")
    assert (changed["transform"]["python"], plain["transform"]) == ("rules:clean", None)
    assert "changed on the way" in changed["notes"][0]["message"]

    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--limit", "6")
    assert found["counts"] == {"unchanged": 0, "changed": 4, "left_out": 2, "failed": 0, "waits_for_the_registry": 0}
    assert [each["offset"] for each in found["records"]] == [*range(24, 30)]
    first = found["records"][0]
    assert json.loads(first["before"]["value"]) == {"id": 24, "country": "DE", "note": "private"}
    assert json.loads(first["after"]["value"]) == {"id": 24, "country": "DE"}
    assert (first["after"]["key"], first["after"]["timestamp_ms"]) == ("24", topics.SEPTEMBER + 24)

    topics.produce(east, orders, [Given(None, b"\xff", [], topics.SEPTEMBER + 99)])
    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--from-offset", "29", code=1)
    assert [each["result"] for each in found["records"]] == ["changed", "failed"]
    assert "UnicodeDecodeError" in found["records"][1]["reason"]
    assert found["records"][1]["before"] == {
        "timestamp_ms": topics.SEPTEMBER + 99,
        "key": None,
        "value": "\\xff",
        "headers": [],
    }
    shell.run("transform", "try", shell.stem, "--topic", f"{shell.stem}.plain", code=6)
    shell.run("transform", "try", shell.stem, "--topic", "none", code=2)
    (verdict,) = shell.run("verify", "--topic", orders, code=4)
    (partition,) = verdict["topics"][0]["partitions"]
    assert (partition["missing"], partition["filtered"]) == (21, 10)

    shell.links[0]["transform"][0]["python"] = "rules:cleaned"
    shell.configure()
    refused, plain = shell.run("plan", code=1)["links"][0]["topics"]
    assert (refused["mode"], plain["mode"]) == ("refused", "identity")
    assert "rules:cleaned cannot be imported" in refused["reasons"][0]["message"]


def test_a_trial_of_a_function_that_hangs_has_an_end(shell: Shell, tmp_path: Path) -> None:
    """It says which records the function has, and what a link would do."""
    (tmp_path / "hanging.py").write_text(HANGING)
    shell.links[0]["transform"][0]["python"] = "hanging:hang"
    shell.configure()
    says = r"hanging:hang is not done after 2 s: .* partition 0, offsets 25 to 29"
    with Fabric(config.load(tmp_path / "isthmus.yaml")) as fabric, pytest.raises(PlanRefused, match=says):
        fabric.transform_trial(shell.stem, f"{shell.stem}.orders", limit=5, within_s=2.0)


def test_a_link_with_a_transform_runs(shell: Shell, east: LocalCluster, west: LocalCluster) -> None:
    """Consumers at the target see what the function made of each record, and groups go on at their places."""
    orders = f"{shell.stem}.orders"
    commit(east, {f"{shell.stem}-group": {(orders, 0): 16}})

    outcome = shell.run("run", "--until", "caught-up")

    assert outcome["caught_up"]
    (sent,), (got,) = (oracle.records(each.bootstrap_servers, orders) for each in (east, west))
    wanted = [each for each in sent if b'"US"' not in (each.value or b"")]
    assert [each.offset for each in got] == list(range(20))
    assert [(each.key, each.timestamp, each.headers) for each in got] == [
        (each.key, each.timestamp, each.headers) for each in wanted
    ]
    for before, after in zip(wanted, got, strict=True):
        assert json.loads(after.value or b"") | {"note": "private"} == json.loads(before.value or b"")
    oracle.assert_same(east, west, f"{shell.stem}.plain")
    # Of the records before offset 16 five are left out, and that at 16 as well: the next one is the twelfth.
    await_position(west, f"{shell.stem}-group", (orders, 0), 11)
    changed, plain = shell.run("status")[0]["topics"]
    assert (changed["offsets"], plain["offsets"]) == ("mapped", "same")
    assert (changed["lag_records"], changed["transform"]["described"]) == (0, "by rules:clean")
    counts = (changed["filtered_records"], changed["skipped_records"], changed["partitions"][0]["filtered_records"])
    assert counts == (10, 0, 10)
    (origin,) = shell.run("provenance", orders)
    (made,) = origin["transforms"]
    assert (made["offset_begin"], made["described"]) == (0, "by rules:clean")
    drill = shell.run("groups", "drill", f"{shell.stem}-group")
    (position,) = drill["positions"]
    assert (position["compared"], position["skipped"], position["read_again"]) == (9, 0, 0)
    again = shell.run("run", "--until", "caught-up")
    assert again["records"] == 0
    # A topic that is not there is no topic of which nothing was set aside.
    assert shell.run("quarantine", "show", shell.stem, orders) == []
    for words in (["list"], ["show"], ["replay", "--yes"]):
        shell.run("quarantine", *words, shell.stem, f"{orders}.typo", code=2)
    shell.run("quarantine", "replay", shell.stem, orders, "--raw", "--yes", code=2)

    (verdict,) = shell.run("verify")
    assert (verdict["equal"], verdict["records"]) == (True, 60)
    assert verdict["topics"][0]["partitions"][0]["filtered"] == 10
    del shell.links[0]["transform"]
    shell.configure()
    (verdict,) = shell.run("verify", code=5)
    (partition,) = verdict["topics"][0]["partitions"]
    assert (verdict["equal"], partition["missing"], partition["not_compared"]) == (False, 0, 30)
