"""A cluster of a tree is lost while the tree runs and everybody produces."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isthmus.local import LocalCluster
from testing.patience import TERM_S, UNFENCED
from testing.records import topics
from testing.runs.treeload import PARTITIONS, Clusters, Load, file_of, produce, read

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def four(east: LocalCluster, west: LocalCluster) -> Iterator[Clusters]:
    """Four clusters. One is killed and starts again: its controller lets it in once it has fenced what was killed."""
    with (
        LocalCluster.start("north", brokers=1, heap_mb=256) as north,
        LocalCluster.start("south", brokers=1, heap_mb=256, properties=UNFENCED) as south,
    ):
        yield {"east": east, "west": west, "north": north, "south": south}


def test_a_target_that_is_gone_is_left(four: Clusters, topic: Callable[[str], str], tmp_path: Path) -> None:
    """A leaf is killed while everybody produces. One distributor leaves it by the word of an operator who does not
    expect it back and has all sent again; another one by itself once the file says so, and what it sent comes once:
    when the leaf is back it is reconciled, and nothing is missing anywhere.
    """
    name = topic("gone")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    whole = {**file_of(four, [["east", "west"], ["north", "south"]], name), "spark": {"master": "local[2]"}}
    file.write_text(json.dumps(whole))
    load = Load(four, name, file)

    def comes(alias: str, *origins: str) -> Callable[[], bool]:
        """Whether records that are produced at these from now on come to a cluster."""

        def count(origin: str) -> int:
            return sum(len(numbers) for (_, key), numbers in read(four[alias], name).items() if key == origin)

        before = {origin: count(origin) for origin in origins}
        return lambda: all(count(origin) >= before[origin] + 200 for origin in origins)

    def is_everywhere() -> bool:
        wanted = {(p, origin): set(range(n)) for p in range(PARTITIONS) for origin, n in load.written.items()}
        return all({key: set(found) for key, found in read(each, name).items()} == wanted for each in four.values())

    running = load.run()
    try:
        load.wait_for(lambda: all(len(read(cluster, name)) == PARTITIONS * len(four) for cluster in four.values()))
        load.switch("west", "north")
        load.wait_for(lambda: load.targets()["west"] == "north")
        load.wait_for(comes("north", "east", "west"))
        load.end("north")
        four["north"].broker(1).kill()
        load.switch("east", "south", "--force", "--resend", "--dry-run")
        asked = load.done("tree", "switch", name, "east", "2", "--to", "south", "--force", "--resend")
        assert (asked.returncode, load.targets()["east"]) == (2, "north"), "nobody has said yes"
        load.switch("east", "south", "--force", "--resend", "--yes")
        load.wait_for(lambda: load.targets()["east"] == "south")
        assert load.targets()["west"] == "north"
        whole["trees"][0]["switch_after_s"] = 30
        file.write_text(json.dumps(whole))
        running.send_signal(signal.SIGHUP)
        load.wait_for(lambda: load.targets()["west"] == "south")
        load.wait_for(comes("south", "east", "west"))
        assert load.doubted().keys() == {"north"}
        assert load.doubted()["north"] > 0
        refused = load.done("tree", "switch", name, "west", "2", "--to", "north")
        assert (refused.returncode, "north is IN_DOUBT" in refused.stderr) == (6, True), refused.stderr
        four["north"].broker(1).start()
        load.wait_for(lambda: not load.doubted())
        assert load.targets()["west"] == "south"
        load.end()
        load.wait_for(is_everywhere)
    finally:
        four["north"].broker(1).start()
        load.end()
        running.send_signal(signal.SIGINT)
        running.wait(TERM_S)
    for cluster in four.values():
        # Only what was sent again may come twice; the order of a producer is not kept in what was in doubt.
        found = {key: sorted(numbers) for key, numbers in read(cluster, name).items() if key[1] != "east"}
        written = {origin: n for origin, n in load.written.items() if origin != "east"}
        assert found == {(p, origin): list(range(n)) for p in range(PARTITIONS) for origin, n in written.items()}


def test_a_cluster_that_is_gone_is_removed_beside_a_run(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A leaf is lost while everybody produces, and taken out by force while `isthmus run` goes on: the others get all
    that they produce. When it is back after all the run says so, and nothing goes to it or comes from it any more.
    """
    name = topic("lost")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file, told = tmp_path / "isthmus.yaml", tmp_path / "run.log"
    tree = [["east", "west"], ["north", "south"]]
    file.write_text(json.dumps({**file_of(four, tree, name), "spark": {"master": "local[2]"}}))
    load = Load(four, name, file)
    rest = {alias: cluster for alias, cluster in four.items() if alias != "north"}

    def of_the_rest(cluster: LocalCluster) -> dict[tuple[int, str], set[int]]:
        return {key: set(numbers) for key, numbers in read(cluster, name).items() if key[1] != "north"}

    def is_everywhere() -> bool:
        wanted = {(p, origin): set(range(load.written[origin])) for p in range(PARTITIONS) for origin in rest}
        return all(of_the_rest(cluster) == wanted for cluster in rest.values())

    def goes_round() -> Callable[[], bool]:
        """Whether each of the rest gets 200 more of all that the rest produces from now on."""
        before = {alias: sum(map(len, of_the_rest(cluster).values())) for alias, cluster in rest.items()}
        return lambda: all(
            sum(map(len, of_the_rest(cluster).values())) >= before[alias] + 200 for alias, cluster in rest.items()
        )

    running = load.run(told)
    try:
        load.wait_for(lambda: all(len(read(cluster, name)) == PARTITIONS * len(four) for cluster in four.values()))
        assert load.targets()["east"] == "north"
        load.end("north")
        four["north"].broker(1).kill()
        load.wait_for(lambda: load.done("tree", "remove", name, "north", "--force", "--yes").returncode == 0)
        load.wait_for(goes_round())
        four["north"].broker(1).start()
        produce(four["north"], "returned", name, range(20), "lz4")
        held = read(four["north"], name)
        load.wait_for(lambda: "north answers" in told.read_text())
        load.wait_for(goes_round())
        load.end()
        load.wait_for(is_everywhere)
        assert read(four["north"], name) == held
        assert all(origin != "returned" for cluster in rest.values() for _, origin in read(cluster, name))
    finally:
        four["north"].broker(1).start()
        load.end()
        running.send_signal(signal.SIGINT)
        running.wait(TERM_S)
