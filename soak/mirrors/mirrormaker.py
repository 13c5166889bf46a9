"""MirrorMaker 2 in dedicated mode, as its users run it: a properties file and one JVM."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from isthmus.local.jvm import jvm_for
from isthmus.local.properties import as_text
from soak.naming import PREFIX
from soak.side import Side

_HEAP_MB: Final = 512
_CHOSEN: Final = PREFIX.replace(".", "\\.") + ".*"
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_EXACTLY_ONCE: Final = {
    "target.exactly.once.source.support": "enabled",
    "source.consumer.isolation.level": "read_committed",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}


class MirrorMaker:
    """Topics keep their names; offsets are not kept, nor claimed to be. `is_exactly_once` turns its transactions on."""

    keeps_offsets = False
    is_mapped = False
    internal: Sequence[str] = ("mm2-", "heartbeats", "source.")

    def __init__(self, folder: Path, source: Side, target: Side, *, is_exactly_once: bool) -> None:
        self.name = "mm2-eos" if is_exactly_once else "mm2"
        self._folder = folder
        self._sides = (source, target)
        self._settings = _EXACTLY_ONCE if is_exactly_once else {}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, environment: Mapping[str, str]) -> None:
        # Passwords may have changed since it was started last.
        file = self._folder / "mm2.properties"
        file.write_text(as_text(self._properties()))
        jvm = jvm_for("mm2-4.3.1")
        with (self._folder / f"run-{len(self._started) + 1}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    jvm.command(_MAIN, str(file), "--clusters", "target", heap_mb=_HEAP_MB),
                    env={**jvm.environment, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    @property
    def pid(self) -> int:
        return self._started[-1].pid

    def exit_code(self) -> int | None:
        return self._started[-1].poll()

    def processes(self) -> Mapping[int, str]:
        return {each.pid: _MAIN for each in self._started if each.poll() is None}

    def kill(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def stop(self, term_s: float) -> None:
        process = self._started[-1]
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(term_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def _properties(self) -> dict[str, str]:
        text = {
            "clusters": "source,target",
            "source->target.enabled": "true",
            "source->target.topics": _CHOSEN,
            "source->target.groups": _CHOSEN,
            "target->source.enabled": "false",
            "target->source.emit.heartbeats.enabled": "false",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "tasks.max": "2",
            "replication.factor": "3",
            "refresh.topics.interval.seconds": "5",
            "refresh.groups.interval.seconds": "5",
            "emit.checkpoints.interval.seconds": "5",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "5",
            "sync.topic.acls.enabled": "false",
            "offset-syncs.topic.replication.factor": "3",
            "checkpoints.topic.replication.factor": "3",
            "heartbeats.topic.replication.factor": "3",
            "offset.storage.replication.factor": "3",
            "status.storage.replication.factor": "3",
            "config.storage.replication.factor": "3",
            # The rights of the source are those of a mirror that writes nothing there.
            "offset-syncs.topic.location": "target",
            # A service that was killed shall be there again as soon as ours is.
            "target.session.timeout.ms": "10000",
            **self._settings,
        }
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        for side in self._sides:
            password = side.password_file.read_text()
            text |= {
                f"{side.name}.bootstrap.servers": side.mirror_servers,
                f"{side.name}.security.protocol": "SASL_PLAINTEXT",
                f"{side.name}.sasl.mechanism": "SCRAM-SHA-512",
                f"{side.name}.sasl.jaas.config": f'{login} username="isthmus" password="{password}";',
            }
        return text
