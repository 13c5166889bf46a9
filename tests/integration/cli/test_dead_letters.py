"""Records that a transform cannot change: kept as dead letters, shown and replayed, as people and scripts do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.errors import PlanRefused
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


def refused(shell: Shell, *arguments: str) -> str:
    """What a command says that refuses to begin."""
    with shell.start(*arguments) as command:
        _, told = command.communicate(timeout=shell.term_s)
    assert command.returncode == PlanRefused.exit_code, told
    return str(told)


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

    (status,) = shell.run("status")[0]["topics"]
    assert (status["skipped_records"], status["transform"]["on_error"]) == (4, "dead-letter")
    listed = shell.run("quarantine", "list", shell.stem)
    assert [(each["kind"], each["partition"], each["quarantine"]) for each in listed] == [
        ("dead-letter", 0, where),
        ("dead-letter", 1, where),
    ]
    assert {
        (each["records"], each["replayed_records"], each["offset_first"], each["offset_last"]) for each in listed
    } == {(2, 0, 1, 3)}
    assert where in [each["quarantine"] for each in shell.run("quarantine", "list")]
    shown = shell.run("quarantine", "show", shell.stem, orders, "--partition", "1")
    assert [(each["partition"], each["offset"], each["record"]["value"]) for each in shown] == [
        (1, 1, WRONG.decode()),
        (1, 3, "\\xff"),
    ]
    assert shown[0]["transform"] == planned["transform"]["digest"]
    assert "JSONDecodeError" in shown[0]["reason"]
    assert len(shell.run("quarantine", "show", shell.stem, orders, "--limit", "1", "--offset", "3")) == 1


def test_dead_letters_are_replayed(shell: Shell, tmp_path: Path, east: LocalCluster, west: LocalCluster) -> None:
    """The present transform changes them, each once, and those for which it fails again stay; raw into another topic
    they come as they were.
    """
    orders, other = f"{shell.stem}.orders", f"{shell.stem}x"
    shell.run("run", "--until", "caught-up")
    (tmp_path / "rules.py").write_text(RULES.format(function="mended", more=' + (b"}" if value[-1:] != b"}" else b"")'))
    shell.links[0]["transform"]["python"] = "rules:mended"
    shell.configure()
    replay = ("quarantine", "replay", shell.stem, orders, "--kind", "dead-letter", "--yes")

    counts = ("written_records", "present_records", "left_out_records", "failed_records")
    for more, code, expected in (
        (["--dry-run"], 1, (1, 0, 0, 1)),
        ([], 1, (1, 0, 0, 1)),
        ([], 1, (0, 1, 0, 1)),
    ):
        found = shell.run(*replay, *more, code=code)
        assert [tuple(each[name] for name in counts) for each in found] == [expected] * 2
        assert "UnicodeDecodeError" in found[0]["reason"]
    shell.run("run", "--until", "caught-up")
    got = oracle.records(west.bootstrap_servers, orders, "read_committed", partitions=2)
    for partition in range(2):
        values = [each.value for each in got[partition]]
        assert values == [b'{"COUNTRY": "DE"}', b'{"COUNTRY": "IT"}', b'{"COUNTRY": "FR"}']
        assert (got[partition][2].key, got[partition][2].headers) == (b"1", (("h", b"1"),))

    topics.create(west, other, partitions=2)
    # Only letters can be written as they were, and others are replayed unless they are named.
    shell.run("quarantine", "replay", shell.stem, orders, "--raw", "--into", other, "--yes", code=2)
    for expected in ((2, 0, 0, 0), (0, 2, 0, 0)):
        found = shell.run(*replay, "--raw", "--into", other)
        assert [tuple(each[name] for name in counts) for each in found] == [expected] * 2
    for sent, raw in zip(
        oracle.records(east.bootstrap_servers, orders, partitions=2),
        oracle.records(west.bootstrap_servers, other, "read_committed", partitions=2),
        strict=True,
    ):
        failed = [each for each in sent if each.value in (WRONG, ROTTEN)]
        assert [each[1:] for each in raw] == [each[1:] for each in failed]
    assert {each["replayed_records"] for each in shell.run("quarantine", "list", shell.stem, orders)} == {2}
    shell.run(*replay, "--cluster", "east", code=2)
    topics.configure(west, dead_letters_of(shell.stem, TargetTopic(orders)), cleanup_policy="compact")
    assert "is compacted" in refused(shell, *replay)


def test_a_replay_writes_into_no_topic_with_the_offsets_of_a_source(
    shell: Shell, east: LocalCluster, west: LocalCluster
) -> None:
    """A lane of such a topic would stop at the first of its records: it is refused before that, with the link."""
    orders, plain = f"{shell.stem}.orders", f"{shell.stem}.plain"
    topics.create(east, plain, partitions=2)
    shell.links[0]["transform"]["topics"] = [orders]
    shell.configure()
    shell.run("run", "--until", "caught-up")
    replay = ("quarantine", "replay", shell.stem, orders, "--kind", "dead-letter", "--yes", "--raw")
    assert f"offsets of link {shell.stem}" in refused(shell, *replay, "--into", plain)
    assert oracle.ends(west.bootstrap_servers, plain, 0).high == 0

    # Letters outlive the link's interest in their topic.
    shell.links[0]["topics"] = {"include": [plain]}
    shell.configure()
    other = f"{shell.stem}.other"
    topics.create(west, other, partitions=2)
    assert len(shell.run("quarantine", "show", shell.stem, orders)) == 4
    assert [each["written_records"] for each in shell.run(*replay, "--into", other)] == [2, 2]
