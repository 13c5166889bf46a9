"""`isthmus link recover` and `isthmus quarantine`, as people and scripts call them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.groups.carrying import filled, records
from testing.records import topics
from testing.runs.command import Shell
from testing.runs.recovering import log_of

pytestmark = pytest.mark.integration


def test_recover_and_replay(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A dry run tells where both sides part, and the plan which command it is. What was set aside is listed, counted,
    and replayed once. One command at a time, and one that was killed is gone on with.
    """
    shell = Shell(tmp_path, east, west, topic("recover"))
    name, link = f"{shell.stem}.a", shell.stem
    filled(east, west, name, 10)
    topics.produce(west, name, records(4, begin=100))
    plan = shell.run("plan", code=1)
    (refused,) = plan["links"][0]["topics"][0]["refused_partitions"]
    assert f"isthmus link recover LINK --topic {name}" in refused["hint"]

    (foreseen,) = shell.run("link", "recover", link, "--dry-run")["topics"]
    (partition,) = foreseen["partitions"]
    assert (partition["last_shared"], partition["target_end"], partition["only_at_target"]) == (10, 14, 4)
    one, other = shell.run("link", "recover", link, "nowhere", "--dry-run", code=2)
    assert ([each["topic"] for each in one["topics"]], one["problem"]) == ([name], None)
    assert other == {"link": "nowhere", "problem": other["problem"]}
    with shell.start("link", "recover", link, "--yes", "--quiet", "1m") as first:
        assert first.stderr is not None
        assert any("waiting until no producer writes" in line for line in first.stderr)
        # Whoever comes later is refused while the first is there, and goes on as soon as it is not.
        shell.run("link", "recover", link, "--yes", code=6)
        first.kill()
    (done,) = shell.run("link", "recover", link, "--yes", "--quiet", "500ms")["topics"]
    assert (done["stage"], done["quarantined_records"]) == ("DONE", 4)
    (held,) = shell.run("quarantine", "list", link)
    assert (held["kind"], held["records"], held["offset_first"], held["offset_last"]) == ("diverged", 4, 10, 13)
    shell.run("quarantine", "replay", link, name, "--into", f"{name}-none", "--yes", code=6)
    counted = {
        "partition": 0,
        "written_records": 4,
        "present_records": 0,
        "left_out_records": 0,
        "failed_records": 0,
        "reason": None,
    }
    assert shell.run("quarantine", "replay", link, name, "--dry-run") == [counted]
    assert shell.run("quarantine", "replay", link, name, "--yes") == [counted]
    assert shell.run("quarantine", "replay", link, name, "--yes") == [
        {**counted, "written_records": 0, "present_records": 4}
    ]


def test_go_on_mapped(tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A command killed in the middle has changed nothing and is given again; a run killed in the middle of what comes
    next is gone on with, each record once. What was done stays told, and is not done otherwise by accident.
    """
    shell = Shell(tmp_path, east, west, topic("mapped"))
    name, link = f"{shell.stem}.a", shell.stem
    filled(east, west, name, 10)
    topics.produce(west, name, records(4, begin=100))
    topics.produce(east, name, records(500, begin=10))
    way = ("link", "recover", link, "--topic", name, "--way", "mapped")
    shell.run("link", "recover", link, "--quarantine", "--yes", code=2)
    shell.run("link", "recover", link, "--way", "beside", "--yes", code=2)
    (foreseen,) = shell.run(*way, "--quarantine", "--dry-run")["topics"]
    assert (foreseen["way"], foreseen["stage"], foreseen["partitions"][0]["last_shared"]) == (
        "mapped",
        "SETTING_ASIDE",
        10,
    )
    with shell.start(*way, "--yes", "--quiet", "1m") as first:
        assert first.stderr is not None
        assert any("waiting until no producer writes" in line for line in first.stderr)
        first.kill()
    held = log_of(west, name)
    (done,) = shell.run(*way, "--quarantine", "--yes", "--quiet", "500ms")["topics"]
    assert (done["stage"], done["way"], done["quarantined_records"]) == ("DONE", "mapped", 4)
    assert shell.run(*way, "--yes")["topics"] == [done]
    shell.run("link", "recover", link, "--topic", name, "--yes", code=6)
    (planned,) = shell.run("plan")["links"][0]["topics"]
    assert (planned["mode"], planned["records_to_copy"], planned["refused_partitions"]) == ("mapped", 500, [])
    assert planned["parted"]["by"]

    # So slow that it is killed before it has copied all.
    shell.links[0]["limits"] = {"bytes_per_s": 4096}
    shell.configure()
    with shell.start("run") as running:
        begun = len(held)
        while len(log_of(west, name)) == begun:
            assert running.poll() is None
        running.kill()
    del shell.links[0]["limits"]
    shell.configure()
    shell.run("run", "--until", "caught-up")
    found = log_of(west, name)
    assert found[: len(held)] == held
    assert [each.value for each in found[len(held) :]] == [b"%d" % n for n in range(10, 510)]
    (status,) = shell.run("status")
    (told,) = status["topics"]
    assert (told["offsets"], told["lag_records"], told["parted"]) == ("mapped", 0, planned["parted"])


def test_a_fresh_topic_beside(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """As docs/recovery.md has it: the topic that diverged stays as it is, and a link of another name fills a new one
    with the source's offsets, onto which the group is carried.
    """
    shell = Shell(tmp_path, east, west, topic("fresh"))
    name, fresh, link, group = f"{shell.stem}.a", f"beside-{shell.stem}", f"{shell.stem}-fresh", f"{shell.stem}-app"
    filled(east, west, name, 10)
    topics.produce(west, name, records(4, begin=100))
    topics.produce(east, name, records(5, begin=10))
    consumers.commit(east, {group: {(name, 0): 12}})
    held = log_of(west, name)
    shell.run("filters", shell.stem, "--add", "--exclude", name)
    maps = ("--source", "east", "--target", "west", "--map-exact", f"{name}:{fresh}", "--group-map", group)
    shell.run("link", "create", link, *maps)
    shell.run("run", "--until", "caught-up")
    assert log_of(west, name) == held
    assert log_of(west, fresh) == log_of(east, name)
    consumers.await_position(west, group, (fresh, 0), 12)
    # No other test runs it.
    shell.run("link", "delete", link, "--yes")
