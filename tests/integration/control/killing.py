"""Commands whose process is killed once one more record of theirs is in a ledger, and what the ledgers hold then."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, TopicPartition

from isthmus.local import LocalCluster
from isthmus.model.naming import LEDGER_TOPIC
from tests.integration.control.recovering import log_of
from tests.patience import TERM_S

_COMMAND: Final = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")
_STILL_S: Final = 0.1
_CHANCE: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b\d{13}\b")
"""Ids of topics, and moments in ms."""


class LedgerWatch:
    """Sees each record that comes into the ledgers of some clusters, committed or not; use it with `with`."""

    def __init__(self, clusters: Iterable[LocalCluster]) -> None:
        self._readers = [_at_the_end(cluster) for cluster in clusters]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.close()

    def look(self, wait_s: float = 0.002) -> int:
        """How many records have come since the last look."""
        return sum(self._look(reader, wait_s) for reader in self._readers)

    def _look(self, reader: Consumer, wait_s: float) -> int:
        found = 0
        while (message := reader.poll(wait_s)) is not None:
            assert message.error() is None, message.error()
            found += 1
        return found

    def killed(self, arguments: Sequence[str], step: int) -> tuple[bool, int]:
        """Have a process do this, and kill it once its record of that number has come; whether it was killed, or came
        to its end before, and how many records had come when it was gone.
        """
        self.look(_STILL_S)
        with subprocess.Popen([*_COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            seen = 0
            while process.poll() is None and seen < step:
                seen += self.look()
            process.kill()
            _, told = process.communicate(timeout=TERM_S)
        assert process.returncode in (0, -signal.SIGKILL), told.decode()
        return process.returncode != 0, seen + self.look(_STILL_S)


def finished(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A command that nobody kills."""
    return subprocess.run([*_COMMAND, *arguments], capture_output=True, text=True, timeout=TERM_S, check=False)


def written_down(cluster: LocalCluster, link: str, kinds: Iterable[str]) -> dict[str, str]:
    """What a ledger holds of these kinds about a link, by key, without what differs from one to the other by chance."""
    wanted, found = tuple(f"{kind}/" for kind in kinds), dict[str, str]()
    for record in log_of(cluster, LEDGER_TOPIC):
        key = (record.key or b"").decode()
        if not key.startswith(wanted) or link not in key:
            continue
        found.pop(key, None)
        if record.value is not None:
            found[key] = record.value.decode()
    return {_told(key, link): _told(value, link) for key, value in found.items()}


def _told(text: str, link: str) -> str:
    return _CHANCE.sub("_", text.replace(link, "LINK"))


def configured(folder: Path, east: LocalCluster, west: LocalCluster) -> str:
    """A file with both clusters and no link."""
    path = folder / "isthmus.yaml"
    clusters = {
        alias: {"bootstrap_servers": each.bootstrap_servers} for alias, each in (("east", east), ("west", west))
    }
    path.write_text(json.dumps({"clusters": clusters}))
    return str(path)


def _at_the_end(cluster: LocalCluster) -> Consumer:
    reader = Consumer(
        {
            "bootstrap.servers": cluster.admin_bootstrap_servers,
            "group.id": "watching",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 20,
        }
    )
    there = TopicPartition(LEDGER_TOPIC, 0)
    _, there.offset = reader.get_watermark_offsets(there, TERM_S)
    reader.assign([there])
    return reader
