"""What gateways have written into the source's ledger, as it came there: read by a decoder of the soak's own."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from soak.history import History

LEDGER: Final = "__isthmus.ledger"
_KIND: Final = "gateway-pair"
_POLL_S: Final = 0.1
_MEASURE_S: Final = 2.0
_AT_ONCE: Final = 500
_ENDS: Final = 1_000
_ASK_S: Final = 20.0


class LedgerWatch:
    """Follows the ledger past everything that is broken, and tells the history what is said of a link.

    `words` has what stands there now, by key. Of each change the history gets `written`, when its writer made it,
    `absent`, when the ledger was last asked and did not have it, and `heard`, when it was read (all s, wall clock).
    """

    def __init__(self, servers: str, link: str, history: History) -> None:
        self.words: dict[str, dict[str, Any]] = {}
        self._servers = servers
        self._link = link
        self._history = history
        self._ends: deque[tuple[float, int]] = deque(maxlen=_ENDS)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger")

    def __enter__(self) -> LedgerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def is_in_sync(self, gateways: int) -> bool:
        """Whether so many gateways say that the link is in sync, and none says another thing."""
        said = [word["state"] for word in list(self.words.values())]
        return len(said) == gateways and set(said) == {"IN_SYNC"}

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "judge",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        where = TopicPartition(LEDGER, 0, 0)
        consumer.assign([where])
        while not self._over.is_set():
            self._measure(consumer, where)
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                key = (message.key() or b"").decode(errors="replace")
                if message.error() is None and key.startswith(f"{_KIND}/{self._link}/"):
                    self._take(key, message)
        consumer.close()

    def _measure(self, consumer: Consumer, where: TopicPartition) -> None:
        """See where the ledger ends: what lies behind was not there when that was asked."""
        asked = time.time()
        # Without a leader it tells nothing.
        with contextlib.suppress(KafkaException):
            _, end = consumer.get_watermark_offsets(where, timeout=_MEASURE_S, cached=False)
            if end >= 0:
                self._ends.append((asked, end))

    def _take(self, key: str, message: Message) -> None:
        value, offset, written = message.value(), message.offset() or 0, message.timestamp()[1] / 1000
        word = None if value is None else json.loads(value)
        if word is None:
            self.words.pop(key, None)
        else:
            self.words[key] = word
        self._history.tell(
            "word",
            key=key,
            written=written,
            absent=max((asked for asked, end in self._ends if end <= offset), default=written),
            heard=time.time(),
            state=None if word is None else word["state"],
            lets_go=[] if word is None else word.get("lets_go", []),
            reason="" if word is None else word.get("reason", ""),
        )


def leader_of_ledger(admin: AdminClient) -> int:
    """The broker that leads the ledger, -1 if none does.

    :raises KafkaException: The cluster does not answer.
    """
    found = admin.list_topics(LEDGER, timeout=_ASK_S).topics.get(LEDGER)
    return -1 if found is None or 0 not in found.partitions else found.partitions[0].leader
