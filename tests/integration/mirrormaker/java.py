"""The real MirrorMaker 2 in dedicated mode, as its users run it: a file and one JVM, which is killed at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final, Self

from isthmus.local.jvm import jvm_for
from isthmus.local.properties import as_text
from testing.patience import TERM_S
from testing.records.flows import Flow

_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_HEAP_MB: Final = 384
_EXACTLY_ONCE: Final = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}


def until(condition: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


class JavaMirror:
    """MirrorMaker 2 for one flow. `file` is what it is started with."""

    def __init__(self, flow: Flow, folder: Path, *, is_exactly_once: bool = False, **settings: str) -> None:
        self.file = folder / "mm2.properties"
        self._folder = folder
        self._running = ExitStack()
        self._process: Popen[bytes] | None = None
        source, target = flow.source.alias, flow.target.alias
        text = {
            "clusters": f"{source},{target}",
            f"{source}.bootstrap.servers": flow.source.servers,
            f"{target}.bootstrap.servers": flow.target.servers,
            f"{source}->{target}.enabled": "true",
            f"{source}->{target}.topics": f"{flow.stem}.*",
            f"{target}->{source}.enabled": "false",
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "offset-syncs.topic.location": "target",
            "sync.topic.acls.enabled": "false",
            "tasks.max": "2",
            "refresh.topics.interval.seconds": "1",
            # So that there are positions, and records beyond them.
            f"{target}.offset.flush.interval.ms": "1500",
            # Whoever starts it again shall not wait for the dead one.
            f"{target}.session.timeout.ms": "6000",
            f"{target}.heartbeat.interval.ms": "1000",
            f"{target}.scheduled.rebalance.max.delay.ms": "0",
            **{f"{one}.replication.factor": "1" for one in ("offset.storage", "status.storage", "config.storage")},
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **settings,
        }
        if is_exactly_once:
            text |= _EXACTLY_ONCE
            text[f"{target}.exactly.once.source.support"] = "enabled"
            # What it leaves open is given up soon.
            text[f"{target}.producer.transaction.timeout.ms"] = "6000"
            text[f"{source}.consumer.isolation.level"] = "read_committed"
        self.file.write_text(as_text(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self._folder / "mm2.log").read_text()

    def start(self) -> None:
        """Start it; it copies some ten seconds later."""
        jvm = jvm_for("mm2-4.3.1")
        command = jvm.command(_MAIN, str(self.file), heap_mb=_HEAP_MB)
        log = self._running.enter_context((self._folder / "mm2.log").open("ab"))
        self._process = Popen(command, env=jvm.environment, stdin=DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._running.close()
