"""What faults are done to, and how they find it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from soak.conditions import Conditions
from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.mirrors.mirror import Supervisor
from soak.side import Side
from soak.victims import Victim, Victims
from soak.watch import Watch

TERM_S: Final = 120.0
_MIRRORED_S: Final = 180.0
_BEGUN: Final = 20
"""A topic is mirrored when so many records have arrived."""
_POLL_S: Final = 0.2


@dataclass(slots=True, kw_only=True)
class Setting:
    """What every run has while it is at work, whatever its clusters are."""

    supervisor: Supervisor
    history: History
    over: threading.Event = field(default_factory=threading.Event)

    def copied_all(self) -> int:
        """What was copied, as last seen."""
        raise NotImplementedError

    def until(self, condition: Callable[[], object], what: str, *, term_s: float = TERM_S) -> None:
        """Wait until something is so.

        :raises TimeoutError: It is not, after `term_s`.
        """
        deadline = time.monotonic() + term_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not after {term_s:g} s")
            if self.over.is_set():
                raise TimeoutError(f"{what}: the run is over")
            time.sleep(_POLL_S)


@dataclass(slots=True, kw_only=True)
class Scene(Setting):
    """A mirror at work."""

    source: Side
    target: Side
    watch: Watch
    conditions: Conditions
    victims: Victims
    topics: list[str] = field(default_factory=list)
    """Those that a fault may choose from; others are somebody's own."""

    def side(self, name: str) -> Side:
        return self.source if name == "source" else self.target

    def victim(
        self,
        label: str,
        chance: random.Random,
        *,
        partitions: int = 1,
        replicas: list[list[int]] | None = None,
        is_at_target: bool = False,
        **configs: Any,
    ) -> Victim:
        """A topic of a fault's own, written to and mirrored; `is_at_target` creates it there too, in the same way.

        :raises KafkaException: A cluster refused.
        :raises TimeoutError: It is not mirrored.
        """
        name = self.victims.name(label, chance)
        for side in (self.target, self.source) if is_at_target else (self.source,):
            create_topic(side, name, partitions=partitions, replicas=replicas, **configs)
        victim = self.victims.begin(name, partitions=partitions)
        self.until(lambda: self.copied(victim.key) > _BEGUN, f"{name} is mirrored", term_s=_MIRRORED_S)
        return victim

    def copied(self, key: PartitionKey) -> int:
        """Where the target ends, as last seen."""
        ends = self.watch.newest["target"].get(key)
        return 0 if ends is None else ends.high

    def copied_all(self) -> int:
        """What the target has of everything, as last seen."""
        return sum(ends.high for ends in self.watch.newest["target"].values())

    def suffers(self, topic: str, what: str, **more: Any) -> None:
        """Tell the judge what is done to a topic itself, before it is done."""
        self.history.tell("suffered", topic=topic, what=what, **more)


def create_topic(
    side: Side, name: str, *, partitions: int, replicas: list[list[int]] | None = None, **configs: Any
) -> None:
    """Create a topic and wait for leaders of all its partitions; it goes by its name at the source. Dots of a config's
    name are written as underscores.

    :raises KafkaException: The cluster refused, or did not answer in time.
    """
    settings = {"retention.ms": "-1", **{key.replace("_", "."): str(value) for key, value in configs.items()}}
    called = side.names.called(name)
    if replicas is None:
        brokers = len(side.cluster.brokers)
        new = NewTopic(
            called, partitions, brokers, config={"min.insync.replicas": str(max(brokers - 1, 1)), **settings}
        )
    else:
        new = NewTopic(called, len(replicas), replica_assignment=replicas, config=settings)
    client = side.admin
    client.create_topics([new])[called].result(TERM_S)
    deadline = time.monotonic() + TERM_S
    while time.monotonic() < deadline:
        if all(leader(side, (name, partition)) > 0 for partition in range(partitions)):
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"{name} of the {side.name} has no leaders")


def leader(side: Side, key: PartitionKey) -> int:
    """The broker that leads a partition now, -1 if none does; the topic goes by its name at the source."""
    called = side.names.called(key[0])
    try:
        found = side.admin.list_topics(called, timeout=TERM_S).topics.get(called)
    except KafkaException:
        return -1
    partition = None if found is None else found.partitions.get(key[1])
    return -1 if partition is None else partition.leader
