"""Converts observations of links into families of metrics. Their number is bounded, whatever the number of topics."""

from __future__ import annotations

import hashlib
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isthmus import __version__
from isthmus.metrics import catalogue
from isthmus.metrics.catalogue import METRICS, MetricDescription, MetricKind
from isthmus.metrics.observation import (
    SOURCE_KINDS,
    TARGET_KINDS,
    LinkGroup,
    LinkKind,
    LinkLane,
    LinkTopic,
    Observation,
)
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.loop import LoopState
from isthmus.model.problem import Problem
from isthmus.model.process.latency import FLOOR_MS, RATIO
from isthmus.model.process.receipt import LOST, Ending
from isthmus.model.state import RUNNING, LinkState

TOPICS_MAX: Final = 2_000
"""So many topics of all links together have series of their own, link by link and by name. The metrics of a link
include all of its topics.
"""
GROUPS_MAX: Final = 2_000
PARTITIONS_MAX: Final = 10_000
_LABEL_MAX: Final = 200
_MS_PER_S: Final = 1000
_BUCKETS_PER_LE: Final = 8
"""Latencies are counted in buckets an eighth of a doubling wide; eight of them are reported as one."""
_LE_FIRST, _LE_LAST = 6, 24
_DELETED: Final = "deleted_at_source"
_OTHER: Final = "OTHER"
_CALM: Final = (str(LaneState.ACTIVE), str(LaneState.STARTING))
_UP: Final = (*RUNNING, LinkState.PAUSED)


class LinkCollector(Collector):
    """A collector for a registry of prometheus_client: it reports the newest observation.

    With `has_partitions` there are series of single partitions. If the process does not run the links (`runs_none`) the
    families about a run are empty: zeros would mean that nothing is copied.
    """

    def __init__(
        self,
        newest: Callable[[], Observation | None],
        *,
        has_partitions: bool = False,
        runs_none: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs_none = runs_none
        self._newest = newest
        self._has_partitions = has_partitions
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Yield the families, empty: a registry with this collector need not collect from it to know them."""
        return iter(Families().all)

    def collect(self) -> Iterator[Metric]:
        """Yield the families with their present values."""
        families = Families(empty=catalogue.OF_A_RUN if self._runs_none else frozenset())
        families.add(catalogue.BUILD, 1, __version__, platform.python_version())
        seen = self._newest()
        if seen is not None:
            families.add(catalogue.PROGRESS_AGE, max(self._clock() - seen.at_s, 0.0))
            room = _Room(has_partitions=self._has_partitions)
            for link in seen.links:
                telling = _LinkTelling(families, link, seen)
                telling.link(room)
                telling.tasks()
                telling.groups(room.groups)
                telling.topics(room.topics)
                telling.partitions(room.partitions)
                room.take(link)
        return iter(families.all)


class _Room:
    """The remaining number of things with series of their own."""

    def __init__(self, *, has_partitions: bool) -> None:
        self.topics, self.groups = TOPICS_MAX, GROUPS_MAX
        self.partitions = PARTITIONS_MAX if has_partitions else 0
        self._has_partitions = has_partitions

    def left_out(self, link: LinkProgress) -> dict[str, int]:
        """Return the number of things of a link without a series of their own, by kind."""
        left = {
            "topics": len(link.topics) - self.topics,
            "groups": len(link.groups) - self.groups,
            "partitions": _partition_count(link) - self.partitions if self._has_partitions else 0,
        }
        return {kind: max(count, 0) for kind, count in left.items()}

    def take(self, link: LinkProgress) -> None:
        self.topics = max(self.topics - len(link.topics), 0)
        self.groups = max(self.groups - len(link.groups), 0)
        self.partitions = max(self.partitions - _partition_count(link), 0)


class Families:
    """Families of some metrics of the catalogue while they are filled, except those that stay `empty`."""

    def __init__(self, metrics: Iterable[MetricDescription] = METRICS, empty: frozenset[str] = frozenset()) -> None:
        self._empty = empty
        self._by_name = {metric.name: _family(metric) for metric in metrics}

    @property
    def all(self) -> Iterable[Metric]:
        """Return all of them."""
        return self._by_name.values()

    def add(self, metric: MetricDescription, number: float, *labels: str) -> None:
        """Add one number, with these labels."""
        if metric.name in self._empty:
            return
        family = self._by_name[metric.name]
        name = metric.name
        family.add_sample(name, dict(zip(metric.labels, labels, strict=True)), number)

    def add_histogram(self, metric: MetricDescription, latency: Sequence[int], *labels: str) -> None:
        """Add latencies, with these labels."""
        if metric.name in self._empty:
            return
        family = self._by_name[metric.name]
        assert isinstance(family, HistogramMetricFamily)  # noqa: S101 - the catalogue says so
        family.add_metric(labels, buckets=list(_cumulate(latency)), sum_value=_sum_s(latency))


def _family(metric: MetricDescription) -> Metric:
    match metric.kind:
        case MetricKind.GAUGE:
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.COUNTER:
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case MetricKind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _cumulate(latency: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Yield the histogram in fewer buckets, each including those before it, as Prometheus needs them."""
    for power in range(_LE_FIRST, _LE_LAST + 1):
        upper_s = FLOOR_MS * 2**power / _MS_PER_S
        yield f"{upper_s:.6g}", sum(latency[: power * _BUCKETS_PER_LE + 1])
    yield "+Inf", sum(latency)


def _sum_s(latency: Sequence[int]) -> float:
    """Return the sum of the latencies: each is at most 5 % from the middle of its bucket."""
    middle_ms: float = FLOOR_MS / RATIO**0.5
    return sum(count * middle_ms * RATIO**bucket for bucket, count in enumerate(latency) if count) / _MS_PER_S


def label_of(text: str) -> str:
    """Return a foreign text as the value of a label: short, and UTF-8 whatever it was.

    A text that is cut ends in a digest, so that two different ones stay different.
    """
    # Also replaces surrogates, which stand for bytes that are no UTF-8.
    sound = text.encode("utf-8", "backslashreplace").decode()
    if len(sound) <= _LABEL_MAX:
        return sound
    digest = hashlib.sha256(sound.encode()).hexdigest()[:8]
    return f"{sound[:_LABEL_MAX]}...{digest}"


class _LinkTelling:
    """The metrics of one link."""

    def __init__(self, families: Families, link: LinkProgress, seen: Observation) -> None:
        self._add = families.add
        self._families = families
        self._link, self._seen = link, seen
        self._labels = (link.link, link.source, link.target)

    def link(self, room: _Room) -> None:
        link, seen, labels = self._link, self._seen, self._labels
        self._add(catalogue.UP, link.state in _UP, *labels)
        self._one_of(catalogue.LINK_STATE, LinkState, link.state, *labels)
        self._add(catalogue.LINK_RECORDS, link.records, *labels)
        self._add(catalogue.LINK_BYTES, link.size_bytes, *labels)
        # A link that was not looked at yet, or is run elsewhere, must not look like one that has nothing to copy.
        is_looked_at = bool(link.topics) or link.state in _UP
        if link.lag_records >= 0 and is_looked_at:
            self._add(catalogue.LINK_LAG, link.lag_records, *labels)
        lags = [lag for lag in map(self._lag_s, link.topics) if lag is not None]
        if lags or (is_looked_at and not link.topics):
            self._add(catalogue.LINK_LAG_S, max(lags, default=0.0), *labels)
        self._each(catalogue.LINK_TOPICS, Counter(str(topic.state) for topic in link.topics))
        states = Counter(str(p.state) for topic in link.topics for p in topic.partitions)
        self._each(catalogue.LINK_PARTITIONS, states)
        self._each(catalogue.LINK_LEFT_OUT, room.left_out(link))
        self._families.add_histogram(catalogue.LATENCY, link.latency or (0,), *labels)
        self._each(catalogue.PROBLEMS, Counter(_codes(link)))
        for metric, kinds in ((catalogue.SOURCE_ERRORS, SOURCE_KINDS), (catalogue.TARGET_ERRORS, TARGET_KINDS)):
            self._each(metric, {str(kind): seen.errors.get(LinkKind(link.link, kind), 0) for kind in kinds})
        endings = link.lease_totals.endings
        self._each(catalogue.LEASES, {ending: endings.get(ending, 0) for ending in (*map(str, Ending), LOST)})
        self._add(catalogue.WORKER_CPU, link.lease_totals.cpu_s, *labels)
        self._add(catalogue.WORKER_MEMORY, link.lease_totals.memory_bytes_max, *labels)
        self._add(catalogue.THROTTLED, link.lease_totals.throttled_source_s, *labels, "source")
        self._add(catalogue.THROTTLED, link.lease_totals.throttled_target_s, *labels, "target")

    def tasks(self) -> None:
        for loop in self._link.loops:
            self._one_of(catalogue.TASK_STATE, LoopState, loop.state, *self._labels, loop.loop)

    def groups(self, count_max: int) -> None:
        link = self._link
        self._each(catalogue.GROUPS, Counter(group.standing for group in link.groups))
        for group in islice(sorted(link.groups, key=lambda group: group.group), count_max):
            labels = (*self._labels, label_of(group.group))
            late_s = self._seen.out_of_step_s.get(LinkGroup(link.link, group.group), 0.0)
            self._add(catalogue.GROUP_AGE, late_s, *labels)
            if group.behind_records is not None:
                self._add(catalogue.GROUP_UNDERSHOOT, group.behind_records, *labels)

    def topics(self, count_max: int) -> None:
        for topic in islice(sorted(self._link.topics, key=lambda topic: topic.topic), count_max):
            self._topic(topic)

    def _topic(self, topic: TopicProgress) -> None:
        seen, key = self._seen, LinkTopic(self._link.link, topic.topic)
        labels = (*self._labels, label_of(topic.topic))
        self._add(catalogue.RECORDS, topic.records, *labels)
        self._add(catalogue.BYTES, topic.size_bytes, *labels)
        if topic.lag_records >= 0:
            self._add(catalogue.LAG, topic.lag_records, *labels)
        if topic.waiting_records >= 0:
            self._add(catalogue.WAITING, topic.waiting_records, *labels)
        if topic.waiting_s is not None:
            self._add(catalogue.WAITING_S, topic.waiting_s, *labels)
        lags = [partition.lag_records for partition in topic.partitions if partition.lag_records >= 0]
        if lags:
            self._add(catalogue.LAG_MAX, max(lags), *labels)
        lag_s = self._lag_s(topic)
        if lag_s is not None:
            self._add(catalogue.LAG_S, lag_s, *labels)
        self._add(catalogue.STATE, 1, *labels, str(topic.state))
        self._add(catalogue.PARTITIONS, len(topic.partitions), *labels)
        self._add(catalogue.REPORT_AGE, topic.age_s, *labels)
        self._add(catalogue.GAP_RECORDS, seen.gap_records.get(key, 0), *labels, _DELETED)
        self._add(catalogue.FLAGS_REPLACED, topic.flags_replaced, *labels)
        on_error = "" if topic.transform is None else str(topic.transform.on_error)
        self._add(catalogue.TRANSFORM_FAILURES, topic.skipped, *labels, on_error)
        self._add(catalogue.FILTERED, topic.filtered, *labels)
        self._add(catalogue.AUTH_ERRORS, seen.denials.get(key, 0), *labels)

    def partitions(self, count_max: int) -> None:
        found = ((topic, partition) for topic in self._link.topics for partition in topic.partitions)
        for topic, partition in islice(found, count_max):
            labels = (*self._labels, label_of(topic.topic), str(partition.partition))
            self._add(catalogue.PARTITION_RECORDS, partition.records, *labels)
            if partition.lag_records >= 0:
                self._add(catalogue.PARTITION_LAG, partition.lag_records, *labels)
            lag_s = self._seen.lag_s.get(LinkLane(self._link.link, partition.key))
            if lag_s is not None:
                self._add(catalogue.PARTITION_LAG_S, lag_s, *labels)
            if partition.position >= 0:
                self._add(catalogue.PARTITION_POSITION, partition.position, *labels)
            if partition.source_end >= 0:
                self._add(catalogue.PARTITION_SOURCE_END, partition.source_end, *labels)

    def _lag_s(self, topic: TopicProgress) -> float | None:
        """Return the largest known value of all partitions."""
        keys = (LinkLane(self._link.link, partition.key) for partition in topic.partitions)
        lags = [self._seen.lag_s[key] for key in keys if key in self._seen.lag_s]
        return max(lags, default=None)

    def _each(self, metric: MetricDescription, numbers: Mapping[str, int]) -> None:
        for value, number in sorted(numbers.items()):
            self._add(metric, number, *self._labels, value)

    def _one_of(self, metric: MetricDescription, states: Iterable[str], now: str, *labels: str) -> None:
        for state in states:
            self._add(metric, state == now, *labels, str(state))


def _partition_count(link: LinkProgress) -> int:
    return sum(len(topic.partitions) for topic in link.topics)


def _codes(link: LinkProgress) -> Iterator[str]:
    """Yield the problems of the link, its tasks, topics and groups: each once, by the code of its problem or else by
    its state.
    """
    stands: list[tuple[Problem | None, str]] = [(link.problem, str(link.state))]
    stands += [(loop.trouble, str(loop.state)) for loop in link.loops]
    stands += [(topic.problem, str(topic.state)) for topic in link.topics]
    stands += [(group.problem, group.standing) for group in link.groups]
    for problem, state in stands:
        if problem is not None:
            yield problem.code or (_OTHER if state in _CALM else state)
