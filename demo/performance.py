"""What happens around the run while it lasts: a broker restarts, and records go on being produced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from demo.live import Traffic
from demo.topics import LIVE, TOPICS
from isthmus.local import LocalBroker
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.text.wording import format_count

STEADY_S: Final = 6.0
"""How long records go on being produced when everything else is copied: the time latency is measured in."""
_RESTART_AT: Final = 0.25
_LIVE_LAG_MAX: Final = 500

Say = Callable[[str], None]


class Performance:
    """Call `watch` with every progress of the run; it `is_over` when all of this has happened:

    a broker of the target was restarted after a quarter of the records was copied; everything but the live topic was
    copied; records arrived for another `STEADY_S`; their producer was stopped, and its last record copied.
    """

    def __init__(self, broker: LocalBroker, traffic: Traffic, say: Say) -> None:
        self.caught_up_at: float | None = None
        """When there was nothing left to copy but what was just produced, in seconds since the epoch."""
        self._broker = broker
        self._traffic = traffic
        self._say = say
        self._restart: threading.Thread | None = None
        self._failure: BaseException | None = None

    def watch(self, links: Sequence[LinkProgress]) -> None:
        """Do what is due.

        :raises HostError: The broker did not start again.
        """
        topics: dict[str, TopicProgress] = {topic.topic: topic for link in links for topic in link.topics}
        if self._failure is not None:
            raise self._failure
        if topics.keys() < {topic.name for topic in TOPICS}:
            return
        if self._restart is None:
            if _share_copied(topics.values()) >= _RESTART_AT:
                self._restart = threading.Thread(target=self._restart_broker, name="restart", daemon=True)
                self._restart.start()
        elif self.caught_up_at is None:
            if not self._restart.is_alive() and _is_current(topics):
                self.caught_up_at = time.time()
                self._say(f"caught up; {STEADY_S:.0f} more seconds of records for their latency")
        elif not self._traffic.is_stopped and time.time() - self.caught_up_at > STEADY_S:
            self._traffic.stop()
            self._say(f"the live producer stopped after {format_count(self._traffic.sent, 'record')}")

    def is_over(self, links: Sequence[LinkProgress]) -> bool:
        """Whether the run may end: all that was sent is copied, or a partition has stopped for good."""
        partitions = [partition for link in links for topic in link.topics for partition in topic.partitions]
        if any(partition.state.is_terminal for partition in partitions):
            return True
        live = [topic for link in links for topic in link.topics if topic.topic == LIVE.name]
        return self._traffic.is_stopped and sum(_copied(topic) for topic in live) == self._traffic.sent

    def _restart_broker(self) -> None:
        begun = time.monotonic()
        self._say(f"restarting broker {self._broker.node_id} of the target, in the middle of it")
        try:
            self._broker.terminate()
            self._broker.start()
        except BaseException as error:  # noqa: BLE001  # raised again where the run is watched
            self._failure = error
            return
        self._say(f"broker {self._broker.node_id} is back after {time.monotonic() - begun:.1f} s")


def _copied(topic: TopicProgress) -> int:
    return sum(max(partition.target_end, 0) for partition in topic.partitions)


def _share_copied(topics: Collection[TopicProgress]) -> float:
    ends = sum(max(partition.source_end, 0) for topic in topics for partition in topic.partitions)
    return sum(_copied(topic) for topic in topics) / ends if ends else 0.0


def _is_current(topics: dict[str, TopicProgress]) -> bool:
    return all(0 <= topic.lag_records <= (_LIVE_LAG_MAX if name == LIVE.name else 0) for name, topic in topics.items())
