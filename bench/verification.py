"""How long `isthmus verify` takes: over batches that are alike, and over such that are not though their records are.

    python -m bench.verification [--records N] [--repeat N]

Two single-broker clusters hold the same records of 256 bytes: in 16 KiB batches at the source, and at the target in the
same batches, in joined ones, or compressed. Seconds are those of a whole command in a process of its own, Spark's start
included. What comparing takes of a processor is told by doing what Spark's workers do, in this process: batch by batch,
then block by block; brokers are left out of it, and whatever else the machine has to do hardly counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from bench.payload import Shape, templates
from bench.pouring import Pour, pour
from bench.processes import cpu_s
from bench.rig import Rig, Side
from isthmus.engine.batches.rebatch import encode, join, records_of
from isthmus.errors import InvariantError
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.reading import OffsetRange
from isthmus.spark.compare.tally import Pair, batch_totals, unlike_blocks
from isthmus.spark.logs import Logs

BATCH_RECORDS: Final = 61
JOINED: Final = 32
"""So many batches make one of just under 512 KiB, as for a target far away."""
PARTITIONS: Final = 4
SMALL: Final = 3_500
_LZ4: Final = 3
_RATES: Final = ("batches: MB per CPU s", "blocks: MB per CPU s")
_MB: Final = 1e6
_LOOK_S: Final = 0.05
_ROOT: Final = Path(__file__).resolve().parents[1]


def main() -> int:
    """Measure and print; 1 if a verdict is not that both sides are equal."""
    parser = argparse.ArgumentParser(prog="bench.verification", description="How long `isthmus verify` takes.")
    parser.add_argument("--records", type=int, default=6_000_000, help="how many, of 256 bytes (default 6,000,000)")
    parser.add_argument("--repeat", type=int, default=3, help="how often; medians are shown (default 3)")
    given = parser.parse_args()
    plain = templates(Shape(codec="none", batch_records=BATCH_RECORDS))
    plain = plain[: len(plain) // JOINED * JOINED]
    kinds = {
        "alike": plain,
        "joined": [join(_in_a_row(plain[n : n + JOINED])) for n in range(0, len(plain), JOINED)],
        "compressed": [encode(records_of(batch), _LZ4) for batch in plain],
    }
    table = Table(title=f"isthmus verify (medians of {given.repeat})", box=box.SIMPLE_HEAD, title_justify="left")
    for title in ("at the target", "records", "MB", *_RATES, "compared in s", "command s", "CPU s", "load"):
        table.add_column(title, justify="left" if title == "at the target" else "right")
    with Rig.up() as rig, tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder:
        for kind, batches in [("alike, few", plain), *kinds.items()]:
            count = SMALL if kind == "alike, few" else given.records
            topic = f"verify-{kind.replace(', ', '-')}"
            # Whole rounds through the templates, so that the records are the same however they are batched.
            records = -(-count // PARTITIONS // (BATCH_RECORDS * JOINED)) * BATCH_RECORDS * JOINED
            for side, ready in ((rig.source, plain), (rig.target, batches)):
                _fill(side, topic, ready, records // ready[0].record_count)
            runs = [_verified(rig, topic, Path(folder)) | _rates(rig, topic) for _ in range(given.repeat)]
            if not all(run["equal"] for run in runs):
                print(f"bench: {kind}: the records differ", file=sys.stderr)  # noqa: T201
                return 1
            table.add_row(kind, *_cells(runs))
            for side in (rig.source, rig.target):
                side.drop([topic])
    Console(width=120).print(table)
    return 0


def _in_a_row(batches: Sequence[Batch]) -> list[Batch]:
    count = batches[0].record_count
    return [batch._replace(base_offset=n * count, offset_end=n * count + count) for n, batch in enumerate(batches)]


def _fill(side: Side, topic: str, ready: Sequence[Batch], batches: int) -> None:
    side.create(topic, PARTITIONS)
    task = Pour(
        bootstrap_servers=side.bootstrap_servers,
        topic=topic,
        partitions=PARTITIONS,
        batches=batches,
        codec="",
        batch_records=ready[0].record_count,
    )
    asyncio.run(pour(task, ready))


def _verified(rig: Rig, topic: str, folder: Path) -> dict[str, Any]:
    """One run of the command: its verdict, how long it took, and the processor time of its Python workers."""
    clusters = {name: {"bootstrap_servers": side.bootstrap_servers} for name, side in _sides(rig).items()}
    link = {"name": "bench", "source": "source", "target": "target", "topics": {"include": [topic]}}
    file = folder / f"{topic}.yaml"
    # JSON is YAML too.
    file.write_text(json.dumps({"clusters": clusters, "links": [link]}))
    arguments = [sys.executable, "-c", "from isthmus.cli.app import main; main()", "verify", "-c", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    began = time.monotonic()
    with subprocess.Popen([*arguments, "-o", "json"], stdout=subprocess.PIPE, env=environment) as process:
        used = _Used(process)
        told, _ = process.communicate()
        command_s = time.monotonic() - began
        used.join()
    (verdict,) = json.loads(told)
    return {**verdict, "command_s": command_s, "cpu_s": used.cpu_s, "load": os.getloadavg()[0]}


def _rates(rig: Rig, topic: str) -> dict[str, float]:
    """How many MB of both logs a second of processor time compares."""
    clusters = {name: replace(side.cluster(), alias=name) for name, side in _sides(rig).items()}
    pairs = [
        Pair("source", OffsetRange(topic, partition, 0, end), "target", OffsetRange(topic, partition, 0, end))
        for partition, end in enumerate(rig.source.ends(topic, PARTITIONS))
    ]
    with Logs(clusters) as logs:
        began_s = time.process_time()
        size_bytes = sum(batch_totals(logs, pair)[3] for pair in pairs)
        batches_s = time.process_time() - began_s
        if any(unlike_blocks(logs, pair) for pair in pairs):
            raise InvariantError("records that verify found equal are in unlike blocks")
        blocks_s = time.process_time() - began_s - batches_s
    return dict(zip(_RATES, (size_bytes / _MB / batches_s, size_bytes / _MB / blocks_s), strict=True))


class _Used(threading.Thread):
    """The processor time of a command's whole tree, looked at until it ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.cpu_s = 0.0
        self._process = process
        self.start()

    def run(self) -> None:
        while self._process.poll() is None:
            self.cpu_s = max(self.cpu_s, cpu_s(self._process.pid))
            time.sleep(_LOOK_S)


def _sides(rig: Rig) -> dict[str, Side]:
    return {"source": rig.source, "target": rig.target}


def _cells(runs: Sequence[dict[str, Any]]) -> list[str]:
    size_mb = runs[0]["read_bytes"] / _MB
    return [
        f"{runs[0]['records']:,}",
        f"{size_mb:,.0f}",
        *(f"{median(run[rate] for run in runs):,.0f}" for rate in _RATES),
        *(f"{median(run[figure] for run in runs):.1f}" for figure in ("elapsed_s", "command_s", "cpu_s")),
        f"{min(run['load'] for run in runs):.0f} to {max(run['load'] for run in runs):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
