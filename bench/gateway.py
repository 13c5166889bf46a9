"""What a gateway costs: Kafka's own producer and consumer through it, in one and in two processes, and directly.

    python -m bench.gateway [--records 2000000] [--repeat 3]

The producer sends records of 256 bytes in batches of 16 KiB to four partitions, and the consumer reads them, each
by the tool that Kafka measures itself with, in a process of its own. Every repetition measures all ways in turn on the
same broker.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from bench.processes import cpu_s
from isthmus.local import LocalCluster
from isthmus.local.ports import is_free
from isthmus.local.tools import kafka_tool

_HEAP_MB: Final = 2048
_RECORD_BYTES: Final = 256
_PORTS: Final = range(28_000, 28_900, 2)
_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"


def main() -> int:
    """Measure and print a line for each figure, as medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with LocalCluster.start("east", brokers=1, heap_mb=_HEAP_MB) as east, ExitStack() as stack:
        ways: dict[str, tuple[str, int]] = {"direct": (east.bootstrap_servers, 0)}
        for processes in (1, 2):
            ways[f"{processes} process{'es' if processes > 1 else ''}"] = stack.enter_context(_gateway(east, processes))
        for repetition in range(given.repeat + 1):
            for way, (servers, pid) in ways.items():
                topic = f"bench-gateway-{repetition}-{len(way)}"
                for what, measured in (("produce", _produced), ("consume", _consumed)):
                    used = cpu_s(pid) if pid else 0.0
                    mb_per_s = measured(servers, topic, given.records)
                    cost_s = (cpu_s(pid) - used) if pid else 0.0
                    # The first time warms the broker up.
                    if repetition:
                        found[what, way].append((mb_per_s, cost_s / (given.records * _RECORD_BYTES / 1e9)))
    _tell(found)
    return 0


def _tell(found: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    for (what, way), figures in found.items():
        mb_per_s = statistics.median(figure for figure, _ in figures)
        ratios = [figure / direct for (figure, _), (direct, _) in zip(figures, found[what, "direct"], strict=True)]
        line = f"{what}, {way}: {mb_per_s:.0f} MB/s"
        if way != "direct":
            cost_s = statistics.median(cost for _, cost in figures)
            line += (
                f", {statistics.median(ratios):.2f} of direct ({min(ratios):.2f} to {max(ratios):.2f}), "
                f"{cost_s:.2f} CPU seconds per GB"
            )
        sys.stdout.write(line + "\n")
    sys.stdout.write(f"load at the end: {os.getloadavg()[0]:.0f}\n")


@contextmanager
def _gateway(east: LocalCluster, processes: int) -> Iterator[tuple[str, int]]:
    """A gateway in front of the cluster: where clients reach it, and its process."""
    port = next(port for port in _PORTS if is_free(port))
    where = f"127.0.0.1:{port}"
    command = [
        *(sys.executable, "-c", "from isthmus.cli.entry import main; main()", "-b", f"east={east.bootstrap_servers}"),
        *("gateway", "east", "--listen", where, "--advertise", where, "--processes", str(processes)),
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        told = "" if running.stderr is None else running.stderr
        try:
            left = processes
            for line in told:
                left -= "are behind" in line
                if not left:
                    break
            else:
                raise SystemExit("the gateway has ended")
            yield where, running.pid
        finally:
            running.terminate()


def _produced(servers: str, topic: str, records: int) -> float:
    """Megabytes a second of a producer."""
    kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", servers, "--create", "--topic", topic, "--partitions", "4"),
    )
    properties = (
        f"bootstrap.servers={servers}",
        "acks=all",
        "batch.size=16384",
        "linger.ms=10",
        "buffer.memory=67108864",
    )
    what = ("--topic", topic, "--num-records", str(records), "--record-size", str(_RECORD_BYTES), "--throughput", "-1")
    done = kafka_tool(_PRODUCER, *what, "--producer-props", *properties)
    told = re.findall(r"([\d.]+) MB/sec", done.stdout)
    return float(told[-1]) * 1.048576


def _consumed(servers: str, topic: str, records: int) -> float:
    """Megabytes a second of a consumer."""
    where = ("--bootstrap-server", servers, "--topic", topic, "--timeout", "60000")
    done = kafka_tool(_CONSUMER, *where, "--messages", str(records), "--hide-header")
    fields = done.stdout.strip().splitlines()[-1].split(",")
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s: joining the group does not count.
    return float(fields[8]) * 1.048576


if __name__ == "__main__":
    sys.exit(main())
