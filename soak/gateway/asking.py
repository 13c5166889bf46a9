"""Asks the follower, as each answer comes, whether it has what was acknowledged, and writes both down."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_ASK_S: Final = 5.0
_OVER: Final = None


class Asking:
    """A thread beside a client that asks the follower directly, past gateways and whatever is broken.

    Each event is a line of JSON in `file`, times are s of the wall clock. What was acknowledged gets `asked`, when the
    follower was asked, and `highs`, its high watermarks by partition; a group's positions get `there`, those it has.
    A follower that did not tell leaves them out: that proves nothing.
    """

    def __init__(self, file: Path, follower: str, topic: str, partitions: int) -> None:
        self._output = file.open("w", encoding="utf-8")
        self._admin = AdminClient({"bootstrap.servers": follower, "log_level": 0})
        self._follower = follower
        self._members: dict[str, Consumer] = {}
        self._topic = topic
        self._partitions = partitions
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="asking")
        self._thread.start()

    def tell(self, kind: str, **fields: Any) -> None:
        """Something happened now. With `partitions` or `positions` the follower is asked about these."""
        self._events.put({"kind": kind, "at": time.time(), **fields})

    def close(self) -> None:
        """Write down what is left, and end."""
        self._events.put(_OVER)
        self._thread.join()
        self._output.close()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            events = [self._events.get()]
            while not self._events.empty():
                events.append(self._events.get())
            is_over = events[-1] is _OVER
            self._ask([event for event in events if event is not None])

    def _ask(self, events: list[dict[str, Any]]) -> None:
        wanted = {partition for event in events for partition in event.get("partitions", ())}
        asked = time.time()
        highs = self._highs(wanted) if wanted else {}
        for event in events:
            partitions = event.pop("partitions", ())
            if partitions:
                told = {str(each): highs[each] for each in partitions if each in highs}
                event |= {"asked": asked, "highs": told}
            if event.get("positions"):
                event |= {"positions_asked": time.time(), "there": self._positions(event["group"])}
                event["positions_told"] = time.time()
            self._output.write(json.dumps(event) + "\n")
        self._output.flush()

    def _highs(self, partitions: Collection[int]) -> dict[int, int]:
        where = {TopicPartition(self._topic, each): OffsetSpec.latest() for each in partitions}
        found = {}
        asked = self._admin.list_offsets(where, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_ASK_S)
        for partition, answer in asked.items():
            try:
                offset = answer.result(_ASK_S).offset
            except (KafkaException, TimeoutError):
                # It has no leader now, or does not answer.
                continue
            if offset >= 0:
                found[partition.partition] = offset
        return found

    def _positions(self, group: str) -> dict[str, int] | None:
        # Not by the administrator: librdkafka 2.16 breaks (a wrong address) where a group has no coordinator then.
        if group not in self._members:
            self._members[group] = Consumer(
                {
                    "bootstrap.servers": self._follower,
                    "group.id": group,
                    "isolation.level": "read_uncommitted",
                    "log_level": 0,
                }
            )
        where = [TopicPartition(self._topic, each) for each in range(self._partitions)]
        try:
            told = self._members[group].committed(where, timeout=_ASK_S)
        except KafkaException:
            return None
        if any(each.error for each in told):
            return None
        return {str(each.partition): each.offset for each in told if each.offset >= 0}
