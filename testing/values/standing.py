"""Links as a controller says they stand, for tests of what is told of them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from isthmus.metrics.observation import Observer
from isthmus.metrics.server import MetricsAnswers
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import GroupProgress, LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.latency import BUCKETS, bucket_of
from isthmus.model.state import LinkState
from testing.values.promql import Scrapes, Vector

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def partition_of(topic: str, number: int = 0, **more: Any) -> PartitionProgress:
    """A partition with ten records, all of them copied unless `more` says otherwise."""
    fields: dict[str, Any] = {
        "state": LaneState.ACTIVE,
        "target_end": 10,
        "source_end": 10,
        "records": 10,
        "waiting_records": 0,
    }
    return PartitionProgress(topic=TargetTopic(topic), partition=number, **{**fields, "size_bytes": 700, **more})


def topic_at(name: str, *partitions: PartitionProgress, **more: Any) -> TopicProgress:
    """A topic of these partitions, or else of one; `more` is of that one."""
    return topic_of(TargetTopic(name), SourceTopic(name), partitions or (partition_of(name, **more),))


def latency_of(*latencies_ms: float) -> tuple[int, ...]:
    """A histogram of these latencies."""
    histogram = [0] * BUCKETS
    for latency_ms in latencies_ms:
        histogram[bucket_of(latency_ms)] += 1
    return tuple(histogram)


def link_at(
    *topics: TopicProgress, state: LinkState = LinkState.ACTIVE, groups: Sequence[GroupProgress] = (), **more: Any
) -> LinkProgress:
    """A link that runs, with two tasks."""
    fields: dict[str, Any] = {
        "link": "east-west",
        "source": "east",
        "target": "west",
        "loops": (
            LoopProgress(loop="data", state=LoopState.ACTIVE),
            LoopProgress(loop="groups", state=LoopState.NOT_CONFIGURED),
        ),
        "records": sum(topic.records for topic in topics),
        "size_bytes": sum(topic.size_bytes for topic in topics),
    }
    return LinkProgress(state=state, topics=topics, groups=tuple(groups), **{**fields, **more})


class Telling:
    """A run that is asked for its metrics whenever the test says so; its clock is the test's."""

    def __init__(self, *, has_partitions: bool = False) -> None:
        self.now_s = 1000.0
        self.observer = Observer()
        self.answers = MetricsAnswers(self.observer, has_partitions=has_partitions, clock=lambda: self.now_s)
        self.scrapes = Scrapes()

    def show(self, *links: LinkProgress, after_s: float = 30.0) -> None:
        """So the links stand some time later, and so it is scraped."""
        self.now_s += after_s
        self.observer.take(links, self.now_s)
        self.scrape()

    def scrape(self) -> str:
        """What is told now."""
        text = self.text()
        self.scrapes.add(self.now_s, text)
        return text

    def text(self) -> str:
        """What is told now, in the plain format."""
        return self.answers.metrics("")[0].decode()

    def ask(self, query: str) -> Vector:
        """What a query finds, a vector."""
        found = self.scrapes.ask(query)
        assert isinstance(found, dict)
        return found

    def value(self, query: str) -> float:
        """The one number that a query finds."""
        (number,) = self.ask(query).values()
        return number
