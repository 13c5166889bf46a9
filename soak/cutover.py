"""A declared link beside the one of the file, with a topic of its own, that is promoted in the end, or fails over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from soak.conditions import Ending
from soak.history import History
from soak.judge.calm import CUTOVER
from soak.judge.cutover import AFTERWARDS, LATE, Logs
from soak.judge.evidence import PartitionKey
from soak.judge.reading import Ruler, read_logs
from soak.mirrors.isthmus import Isthmus
from soak.scene import TERM_S, Setting, create_topic
from soak.side import Side
from soak.workloads.plain import Pen, PlainWriter
from testing.brokers.proxy import Weather

_LINK: Final = "cutover"
_PREFIX: Final = "cut."
_TOPIC: Final = f"{_PREFIX}orders"
_PARTITIONS: Final = 2
_RECORDS_PER_S: Final = 20.0
_ENOUGH: Final = 40
_WAIT: Final = "2m"
_COMMAND_S: Final = 420.0
_PATIENCE_S: Final = 60.0


class Cutover:
    """Writes to the link's topic from the beginning on; `records` counts what the source has acknowledged of it."""

    def __init__(self, source: Side, target: Side, mirror: Isthmus, history: History, verb: Ending) -> None:
        self._source, self._target = source, target
        self._mirror, self._history = mirror, history
        self._verb = verb
        self._writer = PlainWriter(_pen("before"), source, history)

    @property
    def records(self) -> int:
        return self._writer.acks.count

    def prepare(self) -> None:
        """Create the topic and declare the link.

        :raises KafkaException: The source refused.
        :raises RuntimeError: The link cannot be declared.
        """
        create_topic(self._source, _TOPIC, partitions=_PARTITIONS)
        sides = ("--source", "source", "--target", "target")
        deadline = time.monotonic() + _PATIENCE_S
        while (said := self._mirror.call("link", "create", _LINK, *sides, "--map", f"{_PREFIX}:{_PREFIX}")).returncode:
            # Brokers that have just started on a busy machine may not answer in time.
            if time.monotonic() > deadline:
                raise RuntimeError(f"link create ended with {said.returncode}: {said.stderr[-400:]}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the block lasts the topic is written to."""
        self._writer.begin()
        try:
            yield
        finally:
            self._writer.end()
            self._writer.wait()

    def perform(self, scene: Setting) -> None:
        """Let go of the source, and write to both sides. What was said is told to the judge."""
        self._history.tell("phase", name=CUTOVER)
        if self._verb == "promote":
            self._let_go()
            self._write(scene, _pen(LATE), self._source, "sent")
        else:
            # Whatever the mirror asks the source from now on is answered by nobody.
            with ExitStack() as stack:
                for network in self._source.networks:
                    stack.enter_context(network.weather(Weather.CUT))
                self._write(scene, _pen(LATE), self._source, "sent")
                self._let_go()
        self._write(scene, _pen(AFTERWARDS), self._target, "stranger")

    def logs(self) -> tuple[Logs, Logs]:
        """What both sides hold of the topic.

        :raises KafkaException: A cluster does not answer.
        """
        wanted: list[PartitionKey] = [(_TOPIC, partition) for partition in range(_PARTITIONS)]
        there = [key for key in wanted if key in Ruler(self._target.servers).ends(wanted)]
        return read_logs(self._source.servers, wanted), read_logs(self._target.servers, there)

    def _let_go(self) -> None:
        begun = self._history.now()
        more = ("--quiet", "2s") if self._verb == "promote" else ()
        asked = ("link", self._verb, _LINK, "--yes", "--timeout", _WAIT, "-o", "json", *more)
        said = self._mirror.call(*asked, term_s=_COMMAND_S)
        told = _told(said.stdout) if said.returncode == 0 else []
        self._history.tell(
            "cutover",
            verb=self._verb,
            begun=round(begun, 3),
            code=said.returncode,
            partitions=told,
            said=said.stderr[-600:],
        )

    def _write(self, scene: Setting, pen: Pen, side: Side, kind: str) -> None:
        writer = PlainWriter(pen, side, self._history, kind)
        writer.begin()
        try:
            scene.until(lambda: writer.acks.count > _ENOUGH, f"{pen.name} writes", term_s=TERM_S)
        finally:
            writer.end()
            writer.wait()


def _pen(name: str) -> Pen:
    return Pen(
        name=name,
        topic=_TOPIC,
        partitions=_PARTITIONS,
        codec="lz4",
        linger_ms=5,
        records_per_s=_RECORDS_PER_S,
    )


def _told(text: str) -> list[dict[str, Any]]:
    """The partitions of the one link that is shown."""
    shown = json.loads(text)
    link = shown[0] if isinstance(shown, list) else shown
    return [dict(row) for row in link["partitions"]]
