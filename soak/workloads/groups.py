"""Consumer groups at the source that commit, go on, and are set back."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.workloads.routine import Routine

_SET_BACK: Final = 0.1


class Groups(Routine):
    """Some groups; one commit after another, of any of them. `ends` tells where partitions end."""

    def __init__(
        self, names: list[str], servers: str, history: History, ends: Callable[[], dict[PartitionKey, int]], seed: int
    ) -> None:
        super().__init__("groups")
        self._names = names
        self._servers = servers
        self._history = history
        self._ends = ends
        self._chance = random.Random(f"groups {seed}")
        self._at: dict[tuple[str, PartitionKey], int] = defaultdict(int)

    def _run(self) -> None:
        consumers = {name: self._consumer(name) for name in self._names}
        while not self._over.wait(self._chance.uniform(0.1, 0.6)):
            ends = self._ends()
            if ends:
                name = self._chance.choice(self._names)
                self._commit(consumers[name], name, self._chance.choice(sorted(ends.items())))
        for consumer in consumers.values():
            consumer.close()

    def _commit(self, consumer: Consumer, group: str, there: tuple[PartitionKey, int]) -> None:
        key, end = there
        at = self._at[group, key]
        is_back = self._chance.random() < _SET_BACK
        offset = self._chance.randint(0, at) if is_back else self._chance.randint(at, max(at, end))
        told = {"group": group, "topic": key[0], "partition": key[1], "offset": offset}
        self._history.tell("commit", phase="begin", **told)
        try:
            consumer.commit(offsets=[TopicPartition(*key, offset)], asynchronous=False)
        except KafkaException as error:
            self._history.tell("commit", phase="unknown", problem=str(error)[:100], **told)
            return
        self._at[group, key] = offset
        self._history.tell("commit", phase="done", **told)

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "client.id": "committer",
                "enable.auto.commit": False,
                "socket.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
