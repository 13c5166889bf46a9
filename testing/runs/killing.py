"""Commands whose process is killed once one more record of theirs is in a ledger, and what the ledgers hold then."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from isthmus.local import LocalCluster
from isthmus.model.naming import LEDGER_TOPIC
from testing.patience import TERM_S
from testing.runs.command import start
from testing.runs.recovering import log_of

_CHANCE: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b1\d{12}\b")
"""Ids of topics, and moments in ms."""


class LedgerWatch:
    """Sees each record that comes into the ledgers of some clusters, committed or not; use it with `with`."""

    def __init__(self, clusters: Iterable[LocalCluster]) -> None:
        self._readers = [_Reader(cluster) for cluster in clusters]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.consumer.close()

    def killed(self, arguments: Sequence[str], step: int) -> tuple[bool, int]:
        """Have a process do this, and kill it once its record of that number has come; whether it was killed, or came
        to its end before, and how many records had come when it was gone.
        """
        for reader in self._readers:
            reader.rest()
        with start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            seen = 0
            while process.poll() is None and seen < step:
                seen += sum(reader.look() for reader in self._readers)
            process.kill()
            _, told = process.communicate(timeout=TERM_S)
        assert process.returncode in (0, -signal.SIGKILL), told.decode()
        return process.returncode != 0, seen + sum(reader.rest() for reader in self._readers)


class _Reader:
    """Reads on in one ledger from where it ends now."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.admin_bootstrap_servers,
                "group.id": "watching",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 20,
            }
        )
        self._read_to = self._end()
        self.consumer.assign([TopicPartition(LEDGER_TOPIC, 0, self._read_to)])

    def _end(self) -> int:
        return int(self.consumer.get_watermark_offsets(TopicPartition(LEDGER_TOPIC, 0), TERM_S)[1])

    def look(self) -> int:
        """How many records have come that were not seen yet, but for marks, which change nothing; of control records it
        is told by the end.
        """
        message = self.consumer.poll(0.002)
        if message is None:
            return 0
        error, offset = message.error(), message.offset()
        assert offset is not None
        self._read_to = offset + (error is None)
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
        return int(error is None and not (message.key() or b"").startswith(b"mark/"))

    def rest(self) -> int:
        """How many come until the end as it is now."""
        end, found, deadline = self._end(), 0, time.monotonic() + TERM_S
        while self._read_to < end:
            found += self.look()
            assert time.monotonic() < deadline, f"read to {self._read_to} of {end}"
        return found


def written_down(cluster: LocalCluster, link: str, kinds: Iterable[str]) -> dict[str, object]:
    """What a ledger holds of these kinds about a link, by key, without what differs from one to the other by chance."""
    wanted, found = tuple(f"{kind}/" for kind in kinds), dict[str, str]()
    for record in log_of(cluster, LEDGER_TOPIC):
        key = (record.key or b"").decode()
        if not key.startswith(wanted) or link not in key:
            continue
        found.pop(key, None)
        if record.value is not None:
            found[key] = record.value.decode()
    return {f"{cluster.name} {_told(key, link)}": json.loads(_told(value, link)) for key, value in found.items()}


def _told(text: str, link: str) -> str:
    return _CHANCE.sub("0", text.replace(link, "LINK"))


def configured(folder: Path, east: LocalCluster, west: LocalCluster) -> str:
    """A file with both clusters and no link."""
    path = folder / "isthmus.yaml"
    clusters = {
        alias: {"bootstrap_servers": each.bootstrap_servers} for alias, each in (("east", east), ("west", west))
    }
    path.write_text(json.dumps({"clusters": clusters}))
    return str(path)
