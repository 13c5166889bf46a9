"""One copy by one contender, watched from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.contenders import Contender, Copy
from bench.processes import cpu_s, python_worker_peak_mb
from bench.rig import Rig, Side
from isthmus.local.process import Process, ProcessGuard

_POLL_S: Final = 0.02
_STALL_S: Final = 90.0
_BEGIN_S: Final = 600.0
"""How long a contender may take until its first record: on a machine with much else to do Spark alone takes minutes."""
_SETTLE_S: Final = 3.0
_END_S: Final = 20.0
_LOG_TAIL_CHARACTERS: Final = 4000


class CopyFailed(Exception):
    """A contender ended, stood still, or delivered something else than the source holds."""


@dataclass(frozen=True, slots=True)
class Running:
    """A contender at work, begun at `began_s` of the monotonic clock."""

    process: Process
    target_topics: tuple[str, ...]
    began_s: float

    @property
    def target_topic(self) -> str:
        """The only one, or the first."""
        return self.target_topics[0]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        return self.process.state == "stopped"


@dataclass(frozen=True, slots=True)
class Sample:
    """At one moment: records at the target, and CPU seconds the contender has used since it began."""

    at_s: float
    records: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """A copy from its first to its last record at the target; what came before is its start."""

    records_per_s: float
    cpu_s_per_million: float
    worker_peak_mb: float
    start_s: float
    start_cpu_s: float


@contextmanager
def running(rig: Rig, contender: Contender, copy: Copy) -> Iterator[Running]:
    """A contender while the block runs. Its topics are gone afterwards, and what ledgers knew of its links.

    :raises CopyFailed: The block says so; what the contender printed is added.
    """
    command = contender.command(copy)
    before = set(rig.target.topics())
    if not contender.creates_topic:
        for topic in command.target_topics:
            rig.target.create(topic, copy.filling.partitions)
    log = copy.folder / f"{contender.name}-{copy.label}.log"
    guard = ProcessGuard()
    try:
        began_s = time.monotonic()
        process = guard.spawn(command.arguments, environment=command.environment, log=log)
        yield Running(process, command.target_topics, began_s)
        process.send(signal.SIGTERM)
        process.wait_stopped(_END_S)
        command.forget()
    except CopyFailed as error:
        raise CopyFailed(f"{contender.name}: {error}\n{tail(log)}") from None
    finally:
        guard.end()
        rig.target.drop([topic for topic in rig.target.topics() if topic not in before])


def copy_once(rig: Rig, contender: Contender, copy: Copy) -> dict[str, float]:
    """Let a contender copy, and check what arrived.

    :raises CopyFailed: It did not deliver as many records to every partition as the source has.
    """
    _settle()
    with running(rig, contender, copy) as run:
        first, last = _watch(rig, run, copy)
        worker_peak_mb = python_worker_peak_mb(run.pid)
        # Offsets are equal too where a topic keeps them: it begins with nothing, at 0.
        expected = _ends(rig.source, copy.topics, copy)
        arrived = _ends(rig.target, run.target_topics, copy)
        if arrived != expected:
            raise CopyFailed(f"delivered {arrived} where the source ends at {expected}")
    return asdict(_result(first, last, run.began_s, worker_peak_mb))


def _ends(side: Side, topics: Sequence[str], copy: Copy) -> list[int]:
    return [end for topic in topics for end in side.ends(topic, copy.filling.partitions)]


def _settle() -> None:
    """Let what the run before has left be written to disk and be deleted, so that this one does not pay for it."""
    os.sync()
    time.sleep(_SETTLE_S)


def _watch(rig: Rig, run: Running, copy: Copy) -> tuple[Sample, Sample]:
    """When the first records are seen at the target, and the last. In between it is looked at as little as will do."""
    first: Sample | None = None
    seen, moved_at = 0, time.monotonic()
    while seen < copy.records:
        if run.has_ended:
            raise CopyFailed(f"ended at {seen} of {copy.records} records")
        time.sleep(_POLL_S)
        records = sum(_ends(rig.target, run.target_topics, copy))
        now = time.monotonic()
        if records > seen:
            # Processor time is counted twice only: going through a tree of processes takes some itself.
            first = first or Sample(now, records, cpu_s(run.pid))
            seen, moved_at = records, now
        elif now - moved_at > (_STALL_S if first else _BEGIN_S):
            raise CopyFailed(f"stood still at {seen} of {copy.records} records")
    last = Sample(moved_at, seen, cpu_s(run.pid))
    return first or last, last


def _result(first: Sample, last: Sample, began_s: float, worker_peak_mb: float) -> CopyResult:
    # The look that first saw records saw some already: those do not count as copied within the window.
    records, term_s = last.records - first.records, last.at_s - first.at_s
    if not records:
        raise CopyFailed("everything arrived between two looks: there is nothing to measure")
    return CopyResult(
        records_per_s=records / term_s,
        cpu_s_per_million=(last.cpu_s - first.cpu_s) / records * 1e6,
        worker_peak_mb=worker_peak_mb,
        start_s=first.at_s - began_s,
        start_cpu_s=first.cpu_s,
    )


def tail(log: Path) -> str:
    """The end of what a contender printed."""
    return log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:] if log.exists() else ""
