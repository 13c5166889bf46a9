"""Eight clusters that one process keeps alike: by a tree of 24 distributors, and by 56 links, from each to each.

The links of the full mesh mirror, each into a topic of its own as MirrorMaker 2 names them: they read no more than they
write. Every cluster has one broker, and everything runs on one machine: figures of it compare the two, no more.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final

import isthmus
from bench.cases import TreeCase
from bench.copying import CopyFailed, tail
from bench.payload import Shape, templates
from bench.pouring import Pour, pour
from bench.processes import cpu_s, memory_mb
from bench.rig import Side
from isthmus import config
from isthmus.local.process import Process, ProcessGuard
from testing.brokers.proxy import Proxy, behind_proxy

Sides = Mapping[str, Side]
NAMES: Final = ("ams", "fra", "lon", "par", "nyc", "bos", "sfo", "lax")
TREE: Final = [[["ams", "fra"], ["lon", "par"]], [["nyc", "bos"], ["sfo", "lax"]]]
NEAR: Final = frozenset(NAMES[: len(NAMES) // 2])
"""One half of the tree: the other one is far from it."""
_SLOTS: Final = 2
_HEAP_MB: Final = 256
_BEGIN_S: Final = 900.0
_STALL_S: Final = 300.0
_END_S: Final = 60.0
_POLL_S: Final = 0.1
_BATCH_RECORDS: Final = 61
_COUNTED: Final = 4
"""Bytes are counted while so many times fewer records are copied: what counts them is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eight:
    """Eight clusters that are up, and how much has passed each of their proxies."""

    sides: Sides
    proxies: Mapping[str, Proxy]

    @classmethod
    @contextmanager
    def up(cls) -> Iterator[Eight]:
        """Start all of them and end them with the block."""
        with ExitStack() as stack:
            found = {
                name: stack.enter_context(behind_proxy(f"bench-{name}", heap_mb=_HEAP_MB, fast_start=False))
                for name in NAMES
            }
            yield cls(
                sides={name: Side(*each) for name, each in found.items()},
                proxies={name: proxy for name, (_, proxy) in found.items()},
            )

    def bytes_passed(self) -> tuple[int, int]:
        """What went to the clusters so far, and what came from them."""
        return (
            sum(proxy.asked_bytes for proxy in self.proxies.values()),
            sum(proxy.answered_bytes for proxy in self.proxies.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How they are kept alike: what else stands in the configuration, and the topics that a cluster has then."""

    topic: str
    sections: Mapping[str, Any]
    topics_of: Callable[[str], Sequence[str]]


def tree_of(topic: str) -> Way:
    """A tree, whose topics have one name everywhere."""
    tree = {"name": topic, "clusters": TREE, "topics": [topic]}
    return Way(topic=topic, sections={"trees": [tree]}, topics_of=lambda _: [topic])


def mesh_of(topic: str) -> Way:
    """A link from each to each, whose topics at the target are named after their source as well."""
    links = [
        {
            "name": f"{topic}.{source}.{target}",
            "source": source,
            "target": target,
            "topics": {"include": [topic], "naming": "mm2"},
        }
        for source in NAMES
        for target in NAMES
        if source != target
    ]
    return Way(
        topic=topic,
        sections={"links": links},
        topics_of=lambda own: [topic, *(f"{other}.{topic}" for other in NAMES if other != own)],
    )


WAYS: Final = {"isthmus-tree": tree_of, "isthmus-mesh": mesh_of}


def kept_alike(eight: Eight, name: str, case: TreeCase, folder: Path, label: str) -> dict[str, float]:
    """What one way costs: until all links copy, while they copy, and on the wire.

    :raises CopyFailed: It did not bring everything everywhere, or stood still.
    """
    run = _Run(eight, WAYS[name](label), case, folder)
    try:
        # Everything takes every link on its way, so all of them are at work once everything is everywhere.
        run.produce(1, batch_records=1)
        with run.started() as process:
            began_s = time.monotonic()
            run.watch(process)
            figures = {"links": float(len(run.configuration.links)), "all_copy_s": time.monotonic() - began_s}
        run.produce(case.records)
        with run.started() as process:
            figures |= run.measured(process)
        # What it reads to find its place again is not part of what a record costs.
        run.produce(1, batch_records=1)
        with run.started(is_counted=True) as process:
            run.watch(process)
            before = eight.bytes_passed()
            bytes_produced = run.produce(case.records // _COUNTED)
            run.watch(process)
            written, read = (now - then for now, then in zip(eight.bytes_passed(), before, strict=True))
        return figures | run.hops() | {"written_ratio": written / bytes_produced, "read_ratio": read / bytes_produced}
    finally:
        run.drop()


class _Run:
    """One way at work. Whatever is produced, every cluster gets the same share of it."""

    def __init__(self, eight: Eight, way: Way, case: TreeCase, folder: Path) -> None:
        self._eight, self._way, self._partitions = eight, way, case.partitions
        self._file, self._counted = (folder / f"{way.topic}-{kind}.yaml" for kind in ("plain", "counted"))
        for file, is_far in ((self._file, False), (self._counted, True)):
            clusters = {name: {"bootstrap_servers": side.servers(is_far=is_far)} for name, side in eight.sides.items()}
            # JSON is YAML too.
            file.write_text(json.dumps({"clusters": clusters, "spark": {"slots": _SLOTS}, **way.sections}))
        self._log = folder / f"{way.topic}.log"
        self.configuration = config.load(self._file)
        self._each = 0
        for side in eight.sides.values():
            side.create(way.topic, case.partitions)

    def produce(self, records: int, *, batch_records: int = _BATCH_RECORDS) -> int:
        """Pour at least so many records into all clusters together; how many bytes these are, as they are stored."""
        batches = max(records // len(NAMES) // self._partitions // batch_records, 1)
        sizes = [len(batch.view) for batch in templates(Shape(codec="none", batch_records=batch_records))]
        for side in self._eight.sides.values():
            filling = Pour(
                bootstrap_servers=side.bootstrap_servers,
                topic=self._way.topic,
                partitions=self._partitions,
                batches=batches,
                codec="none",
                batch_records=batch_records,
            )
            asyncio.run(pour(filling))
        self._each += self._partitions * batches * batch_records
        return round(mean(sizes) * batches * self._partitions * len(NAMES))

    @contextmanager
    def started(self, *, is_counted: bool = False) -> Iterator[Process]:
        """`isthmus run` while the block runs, through the proxies if its bytes are counted.

        :raises CopyFailed: The block says so; what was printed is added.
        """
        file = self._counted if is_counted else self._file
        command = [str(Path(sys.executable).with_name("isthmus")), "run", "-c", str(file)]
        guard = ProcessGuard()
        try:
            process = guard.spawn(command, environment=os.environ, log=self._log)
            yield process
            process.send(signal.SIGTERM)
            process.wait_stopped(_END_S)
        except CopyFailed as error:
            raise CopyFailed(f"{self._way.topic}: {error}\n{tail(self._log)}") from None
        finally:
            guard.end()

    def watch(self, process: Process, on_first: Callable[[int], None] = lambda _: None) -> None:
        """Wait until everything is everywhere; `on_first` hears how many records were when there first were more.

        :raises CopyFailed: The process ended, or nothing comes any more.
        """
        wanted = self._each * len(NAMES) ** 2
        begun = seen = self._held()
        moved_at_s = time.monotonic()
        while seen < wanted:
            if process.state == "stopped":
                raise CopyFailed(f"ended at {seen} of {wanted} records")
            time.sleep(_POLL_S)
            held, now_s = self._held(), time.monotonic()
            if held > seen:
                if seen == begun:
                    on_first(held)
                seen, moved_at_s = held, now_s
            elif now_s - moved_at_s > (_BEGIN_S if seen == begun else _STALL_S):
                raise CopyFailed(f"stood still at {seen} of {wanted} records")

    def measured(self, process: Process) -> dict[str, float]:
        """How fast everything comes everywhere, and for what, from the first copy to the last."""
        first: list[tuple[float, int, float]] = []
        self.watch(process, lambda held: first.append((time.monotonic(), held, cpu_s(process.pid))))
        ((at_s, held, used_s),) = first
        copies = self._held() - held
        return {
            "copies_per_s": copies / (time.monotonic() - at_s),
            "cpu_s_per_million": (cpu_s(process.pid) - used_s) / copies * 1e6,
            **{f"{kind}_mb": size for kind, size in memory_mb(process.pid).items()},
        }

    def hops(self) -> dict[str, float]:
        """How many copies lie between two clusters, by how the way is laid; and how many of a record go from one half
        of the clusters into the other, by what links say they copied.
        """
        trees = [settings.tree for settings in self.configuration.trees]
        hops = [hops for tree in trees for source in NAMES for hops in tree.hops(source).values() if hops] or [1]
        with isthmus.open(self._file) as fabric:
            copied = {link.link: link.copied_records for link in fabric.status()}
        far = [link for link in self.configuration.links if (link.source.alias in NEAR) != (link.target.alias in NEAR)]
        return {
            "hops_mean": mean(hops),
            "hops_max": float(max(hops)),
            "far_copies": sum(copied[link.name] or 0 for link in far) / (self._each * len(NAMES)),
        }

    def drop(self) -> None:
        """Delete all topics of this way."""
        for name, side in self._eight.sides.items():
            side.drop(self._way.topics_of(name))

    def _held(self) -> int:
        return sum(
            end
            for name, side in self._eight.sides.items()
            for topic in self._way.topics_of(name)
            for end in side.ends(topic, self._partitions)
        )
