"""The configurations of docs/topologies.md, run as they stand there but for addresses and names."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus import config
from isthmus.local import LocalCluster
from testing.patience import UNFENCED
from testing.records import oracle, topics
from testing.records.flows import Side, consume, go_on, numbered, until_at
from testing.runs.running import Running, ends, running

pytestmark = pytest.mark.integration

PAGE: Final = Path(__file__).parents[3] / "docs" / "topologies.md"
BLOCK: Final = re.compile(r"^## (?P<title>.+?)$.*?^```yaml\n(?P<text>.*?)^```$", re.M | re.S)
COUNTS: Final = {"east": 40, "west": 50, "north": 60}
PAIRS: Final = ("audit", "billing", "catalog", "devices", "events", "flights", "grid", "hotels")
WAYS: Final = (("east", "west"), ("west", "east"))
TERM_S: Final = 600.0
Clusters = Mapping[str, LocalCluster]

# Where copies of `orders` are in the end, by the cluster in which it was written first; and nowhere else.
COPIES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Active-active": {"east": ("west: east.orders",), "west": ("east: west.orders",)},
    "Fan-in": {"east": ("north: east.orders",), "west": ("north: west.orders",)},
    "Fan-out": {"east": ("west: orders", "north: orders")},
    "Chain": {"east": ("west: east.orders", "north: west.east.orders"), "west": ("north: west.orders",)},
    "Ring": {
        "east": ("west: east.orders", "north: west.east.orders"),
        "west": ("north: west.orders", "east: north.west.orders"),
        "north": ("east: north.orders", "west: east.north.orders"),
    },
    "Hub and spoke": {
        "east": ("west: east.orders", "north: west.east.orders"),
        "west": ("east: west.orders", "north: west.orders"),
        "north": ("west: north.orders", "east: west.north.orders"),
    },
}


@pytest.fixture(scope="module")
def three(east: LocalCluster, west: LocalCluster) -> Iterator[Clusters]:
    """The shared clusters, and one more."""
    with LocalCluster.start("north", brokers=1, heap_mb=256, properties=UNFENCED) as north:
        yield {"east": east, "west": west, "north": north}


def written(title: str, clusters: Clusters, stem: str) -> str:
    """The configuration under a heading of the page, for these clusters, with `stem` for `orders`."""
    found = {block["title"]: block["text"] for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    text = re.sub(r"name: ([a-z-]+),", rf"name: \1-{stem},", found[title].replace("orders", stem))
    for alias, cluster in clusters.items():
        text = text.replace(f'"{alias}:9092"', f'"{cluster.admin_bootstrap_servers}"')
    return text


def fill(cluster: LocalCluster, name: str, count: int) -> None:
    topics.create(cluster, name)
    topics.produce(cluster, name, numbered(count))


@pytest.mark.parametrize("title", COPIES)
def test_topology(three: Clusters, topic: Callable[[str], str], spark: SparkSession, title: str) -> None:
    """Every topic comes to each cluster that the page says, once and as it was, and to no other."""
    stem = topic("orders")
    copies = {
        (origin, *place.replace("orders", stem).split(": ")) for origin, to in COPIES[title].items() for place in to
    }
    for origin in COPIES[title]:
        fill(three[origin], stem, COUNTS[origin])
    given = config.parse(written(title, three, stem), environment={})
    given = replace(given, links=tuple(replace(link, topics_interval_s=0.5) for link in given.links))

    async def is_there(at: str, name: str, count: int) -> bool:
        return await ends(three[at], name) == [count]

    async def scenario() -> None:
        async with running(given, spark) as run:
            for origin, at, name in sorted(copies):
                await run.until(partial(is_there, at, name, COUNTS[origin]))
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    assert not isthmus.open(given, spark=spark).plan().has_changes
    for origin, at, name in copies:
        first = oracle.records(three[origin].admin_bootstrap_servers, stem)
        assert oracle.records(three[at].admin_bootstrap_servers, name) == first
    for alias, cluster in three.items():
        held = {name for _, at, name in copies if at == alias} | ({stem} if alias in COPIES[title] else set())
        assert {name for name in topics.names(cluster) if stem in name} == held


def test_a_group_goes_along_a_chain_and_comes_back(
    three: Clusters, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """A position on `orders` becomes the one on `west.east.orders` two hops away, and comes back so, hop by hop: though
    each cluster has other offsets, nothing is skipped and nothing read twice.
    """
    stem = topic("orders")
    sides = [Side(three[alias], alias) for alias in ("east", "west", "north")]
    names = (stem, f"east.{stem}", f"west.east.{stem}")
    for side, name, others in zip(sides, names, (0, 3, 5), strict=True):
        topics.create(side.cluster, name)
        topics.produce(side.cluster, name, numbered(others, begin=900))
    # What others wrote at west is copied to north, too.
    places = list(zip(sides, names, (0, 3, 8), strict=True))
    east, _, north = sides
    topics.produce(east.cluster, stem, numbered(20))
    links = [
        f"  - {{name: {source}-{target}-{stem}, source: {source}, target: {target}, topics_interval_s: 0.5, "
        f"topics: {{include: ['/.*{stem}/'], naming: mm2, offsets: mapped}}, "
        f"groups: {{include: [{stem}], way: mapped}}}}"
        for one, other in pairwise(("east", "west", "north"))
        for source, target in ((one, other), (other, one))
    ]
    clusters = [f"  {side.alias}: {{bootstrap_servers: '{side.servers}'}}" for side in sides]
    given = config.parse("\n".join(["clusters:", *clusters, "links:", *links]), environment={})

    async def until_all_at(run: Running, offset: int) -> None:
        for side, name, behind in places:
            await until_at(run, side, stem, {(name, 0): behind + offset})

    async def scenario() -> list[bytes]:
        async with running(given, spark) as run:
            seen = await asyncio.to_thread(consume, east, stem, [stem], 6)
            await until_all_at(run, 6)
            seen += await asyncio.to_thread(go_on, north, stem, names[-1], 9)
            await until_all_at(run, 15)
            seen += await asyncio.to_thread(go_on, east, stem, stem, 5)
            await until_all_at(run, 20)
            assert (await run.end_well()).exit_code == 0
            return seen

    assert asyncio.run(scenario()) == [b"%d" % number for number in range(20)]


def test_page_has_no_other() -> None:
    """Each configuration of the page is run here."""
    found = [block["title"] for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    assert found == [*COPIES, "Consolidated"]


@pytest.fixture
def sixteen() -> Iterator[Clusters]:
    """Eight clusters in each of two data centres, of one small broker each."""
    aliases = [f"{pair}-{alias}" for pair in PAIRS for alias in ("east", "west")]
    with ExitStack() as ending, ThreadPoolExecutor(max_workers=4) as starting:
        started = starting.map(partial(LocalCluster.start, brokers=1, heap_mb=192), aliases)
        yield {alias: ending.enter_context(cluster) for alias, cluster in zip(aliases, started, strict=True)}


def test_consolidated(sixteen: Clusters, topic: Callable[[str], str], tmp_path: Path) -> None:
    """Eight pairs of clusters, both ways, in two processes of two slots; a link whose source is away stops none."""
    stem = topic("orders")
    for cluster in sixteen.values():
        fill(cluster, stem, 20)
    text = written("Consolidated", sixteen, stem)
    text = text.replace("clusters:\n", "clusters:\n  away: {bootstrap_servers: '127.0.0.1:1'}\n", 1)
    text += f"  - {{name: away-{stem}, source: away, target: audit-west, topics: {{include: [{stem}]}}}}\n"
    file = tmp_path / "isthmus.yaml"
    file.write_text(text)
    command = [str(Path(sys.executable).with_name("isthmus")), "run", "-c", str(file)]
    ways = {f"{pair}-{source}": f"{pair}-{target}" for pair in PAIRS for source, target in WAYS}
    runs = []
    try:
        for centre in ("east", "west"):
            into = [f"--clusters={alias}" for alias in sixteen if alias.endswith(centre)]
            with (tmp_path / f"{centre}.log").open("wb") as log:
                runs.append(subprocess.Popen([*command, *into], stdout=log, stderr=log))
        begun = time.monotonic()
        waiting = {(target, f"{source}.{stem}") for source, target in ways.items()}
        while waiting:
            time.sleep(0.2)
            # Without those that are not there yet: whoever asks for them is kept waiting.
            asked = {(at, name) for at, name in waiting if name in topics.names(sixteen[at])}
            waiting -= {(at, name) for at, name in asked if asyncio.run(ends(sixteen[at], name)) == [20]}
            logs = [(tmp_path / f"{centre}.log").read_text() for centre in ("east", "west")]
            assert all(run.poll() is None for run in runs), logs
            assert time.monotonic() - begun < TERM_S, (waiting, logs)
    finally:
        for run in runs:
            run.send_signal(signal.SIGINT)
        for run in runs:
            run.wait(60)
    told = (tmp_path / "west.log").read_text()
    assert f"away-{stem}: UNAVAILABLE" in told, told
    for source, target in ways.items():
        copied = oracle.records(sixteen[target].admin_bootstrap_servers, f"{source}.{stem}")
        assert copied == oracle.records(sixteen[source].admin_bootstrap_servers, stem)
