"""`isthmus link recover` and `isthmus quarantine`, as people and scripts call them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from tests.integration.cli.test_run import Shell
from tests.integration.groups.test_carrying import filled, records
from tests.integration.lane import topics

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
    with shell.start("link", "recover", link, "--yes", "--quiet", "1m") as first:
        assert first.stderr is not None
        assert any("waiting until nobody writes" in line for line in first.stderr)
        # Whoever comes later is refused while the first is there, and goes on as soon as it is not.
        shell.run("link", "recover", link, "--yes", code=6)
        first.kill()
    (done,) = shell.run("link", "recover", link, "--yes", "--quiet", "500ms")["topics"]
    assert (done["stage"], done["quarantined_records"]) == ("DONE", 4)
    (held,) = shell.run("quarantine", "list", link)
    assert (held["kind"], held["records"], held["offset_first"], held["offset_last"]) == ("diverged", 4, 10, 13)
    shell.run("quarantine", "replay", link, name, "--into", f"{name}-none", "--yes", code=6)
    counted = {"partition": 0, "written_records": 4, "present_records": 0}
    assert shell.run("quarantine", "replay", link, name, "--dry-run") == [counted]
    assert shell.run("quarantine", "replay", link, name, "--yes") == [counted]
    assert shell.run("quarantine", "replay", link, name, "--yes") == [
        {**counted, "written_records": 0, "present_records": 4}
    ]
