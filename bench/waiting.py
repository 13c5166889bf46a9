"""What a gateway uses for synchronous partitions that nobody writes: the same writes, with more partitions beside them.

    python -m bench.waiting [--written 20] [--partitions 2000]

A producer writes to so many partitions of a synchronous link, 100 records a second in each second of a minute; the
link has no more than these, and then as many more as given. Both times the CPU time of the gateway is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Final

from confluent_kafka import Producer

from bench.linked import LINK, linked
from bench.processes import cpu_s

_A_SECOND: Final = 100
_SETTLE_S: Final = 15.0
_MEASURE_S: Final = 60.0
_RECORD: Final = bytes(256)
_WRITTEN: Final = f"{LINK}.written"


def main() -> int:
    """Measure and print both figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.waiting")
    parser.add_argument("--written", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=2000)
    given = parser.parse_args()
    found = {count: _used(given.written, count) for count in (given.written, given.partitions)}
    for count, (share, answered) in found.items():
        sys.stdout.write(
            f"{count:,} synchronous partitions, {given.written} of them written: {100 * share:.1f} % of a core, "
            f"{answered:,} records acknowledged\n"
        )
    sys.stdout.write(f"load at the end: {os.getloadavg()[0]:.0f}\n")
    return 0


def _used(written: int, partitions: int) -> tuple[float, int]:
    """The share of a core that the gateway uses, and how many records were acknowledged meanwhile."""
    topics = {_WRITTEN: written}
    if partitions > written:
        topics[f"{LINK}.idle"] = partitions - written
    with linked(topics, "--enforce", "--super-user") as found:
        found.done("link", "update", LINK, "--mode", "sync")
        found.until("IN_SYNC")
        producer = Producer({"bootstrap.servers": found.servers, "enable.idempotence": True, "linger.ms": 5})
        _write(producer, written, _SETTLE_S)
        begun, before_s = time.monotonic(), cpu_s(found.gateway_pid)
        answered = _write(producer, written, _MEASURE_S)
        return (cpu_s(found.gateway_pid) - before_s) / (time.monotonic() - begun), answered


def _write(producer: Producer, partitions: int, for_s: float) -> int:
    """Write for some seconds; how many were acknowledged."""
    answered, number, over = 0, 0, time.monotonic() + for_s

    def told(error: object, _: object) -> None:
        nonlocal answered
        if error is not None:
            raise SystemExit(f"a record was not taken: {error}")
        answered += 1

    while time.monotonic() < over:
        producer.produce(_WRITTEN, _RECORD, partition=number % partitions, on_delivery=told)
        number += 1
        producer.poll(1 / _A_SECOND)
    producer.flush()
    return answered


if __name__ == "__main__":
    sys.exit(main())
