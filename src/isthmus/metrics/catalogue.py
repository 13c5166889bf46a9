"""Every metric: its name, kind and labels, and its meaning. docs/metrics.md has this as a table."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class MetricKind(enum.StrEnum):
    """The kind of a metric for Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """It never decreases while a process lives."""
    HISTOGRAM = "histogram"


class MetricScope(enum.StrEnum):
    """The thing that has a series of its own."""

    PROCESS = "process"
    LINK = "link"
    TASK = "task"
    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"
    """Only with `--metrics-partitions`."""
    GATEWAY = "gateway"
    """Reported by a gateway, and by no run."""


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """One metric. `more_labels` come behind those that every metric of its scope has."""

    name: str
    kind: MetricKind
    scope: MetricScope
    help: str
    more_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of their values."""
        return (*_LABELS[self.scope], *self.more_labels)


_LINK_LABELS: Final = ("link", "source", "target")
_LABELS: Final = {
    MetricScope.PROCESS: (),
    MetricScope.LINK: _LINK_LABELS,
    MetricScope.TASK: (*_LINK_LABELS, "task"),
    MetricScope.GROUP: (*_LINK_LABELS, "group"),
    MetricScope.TOPIC: (*_LINK_LABELS, "topic"),
    MetricScope.PARTITION: (*_LINK_LABELS, "topic", "partition"),
    MetricScope.GATEWAY: ("cluster",),
}

_GAUGE, _COUNTER = MetricKind.GAUGE, MetricKind.COUNTER
_PROCESS, _LINK, _TASK, _GROUP = MetricScope.PROCESS, MetricScope.LINK, MetricScope.TASK, MetricScope.GROUP
_TOPIC, _PARTITION = MetricScope.TOPIC, MetricScope.PARTITION

BUILD = MetricDescription(
    "isthmus_build_info", _GAUGE, _PROCESS, "Always 1: which version runs, on which Python.", ("version", "python")
)
PROGRESS_AGE = MetricDescription(
    "isthmus_progress_age_seconds",
    _GAUGE,
    _PROCESS,
    "How long ago the controller last reported the state of its links; it does so twice a second, "
    "and every five seconds with very many partitions.",
)

UP = MetricDescription("isthmus_up", _GAUGE, _LINK, "1 while this process runs the link and both clusters answer.")
LINK_STATE = MetricDescription(
    "isthmus_link_state", _GAUGE, _LINK, "1 for the state the link is in, 0 for all others.", ("state",)
)
LINK_RECORDS = MetricDescription(
    "isthmus_link_records_replicated_total", _COUNTER, _LINK, "Records copied, of all topics there ever were."
)
LINK_BYTES = MetricDescription(
    "isthmus_link_bytes_replicated_total", _COUNTER, _LINK, "Bytes of record batches copied, of all topics."
)
LINK_LAG = MetricDescription(
    "isthmus_link_lag_records", _GAUGE, _LINK, "Offsets still to copy in all partitions; none while any is unknown."
)
LINK_LAG_S = MetricDescription(
    "isthmus_link_lag_seconds", _GAUGE, _LINK, "The largest isthmus_replication_lag_seconds of all topics."
)
LINK_TOPICS = MetricDescription(
    "isthmus_link_topics", _GAUGE, _LINK, "Topics by state; states that none is in are left out.", ("state",)
)
LINK_PARTITIONS = MetricDescription(
    "isthmus_link_partitions", _GAUGE, _LINK, "Partitions by state; states that none is in are left out.", ("state",)
)
LINK_LEFT_OUT = MetricDescription(
    "isthmus_link_left_out",
    _GAUGE,
    _LINK,
    "Topics, groups and partitions that have no series of their own because there are too many.",
    ("kind",),
)
LATENCY = MetricDescription(
    "isthmus_replication_latency_seconds",
    MetricKind.HISTOGRAM,
    _LINK,
    "From a record's timestamp to the target's acknowledgement, by record. The sum is that of the buckets' middles.",
)
PROBLEMS = MetricDescription(
    "isthmus_problems",
    _GAUGE,
    _LINK,
    "Problems there are now, of the link, its tasks, topics and groups, by the error's code (or else the state).",
    ("code",),
)
SOURCE_ERRORS = MetricDescription(
    "isthmus_source_errors_total",
    _COUNTER,
    _LINK,
    "How often a partition was found in a state that its source caused.",
    ("kind",),
)
TARGET_ERRORS = MetricDescription(
    "isthmus_target_errors_total",
    _COUNTER,
    _LINK,
    "How often a partition was found in a state that its target caused.",
    ("kind",),
)
LEASES = MetricDescription(
    "isthmus_leases_ended_total",
    _COUNTER,
    _LINK,
    "Leases that ended, by why: TERM and SUCCEEDED are the ordinary course, LOST and FAILED are restarts.",
    ("ending",),
)
WORKER_CPU = MetricDescription(
    "isthmus_worker_cpu_seconds_total", _COUNTER, _LINK, "Processor time of workers, counted when a lease ends."
)
WORKER_MEMORY = MetricDescription(
    "isthmus_worker_memory_peak_bytes", _GAUGE, _LINK, "The most memory a worker had, of leases that have ended."
)
THROTTLED = MetricDescription(
    "isthmus_throttle_seconds_total",
    _COUNTER,
    _LINK,
    "How long quotas of brokers delayed copying, all brokers of a side together, counted when a lease ends.",
    ("side",),
)

TASK_STATE = MetricDescription(
    "isthmus_task_state", _GAUGE, _TASK, "1 for the state the task of the link is in, 0 for all others.", ("state",)
)

GROUPS = MetricDescription(
    "isthmus_groups", _GAUGE, _LINK, "Consumer groups that the link carries, by standing.", ("standing",)
)
GROUP_AGE = MetricDescription(
    "isthmus_group_offset_sync_age_seconds",
    _GAUGE,
    _GROUP,
    "For how long the group's positions at the target have not been those of the source, 0 while they are.",
)
GROUP_UNDERSHOOT = MetricDescription(
    "isthmus_group_offset_undershoot_records",
    _GAUGE,
    _GROUP,
    "By how many records the group's positions at the target are short of those at the source.",
)

RECORDS = MetricDescription("isthmus_records_replicated_total", _COUNTER, _TOPIC, "Records copied.")
BYTES = MetricDescription("isthmus_bytes_replicated_total", _COUNTER, _TOPIC, "Bytes of record batches copied.")
LAG = MetricDescription(
    "isthmus_replication_lag_records",
    _GAUGE,
    _TOPIC,
    "Offsets still to copy, over all partitions; none while any is unknown.",
)
WAITING = MetricDescription(
    "isthmus_replication_waiting_records",
    _GAUGE,
    _TOPIC,
    "Offsets at the source's end that wait for open transactions, and are no lag; none while that is unknown.",
)
WAITING_S = MetricDescription(
    "isthmus_replication_waiting_seconds",
    _GAUGE,
    _TOPIC,
    "For how long the topic's oldest open transaction has held them back, as far as it was seen; 0 while none does, "
    "none while that is unknown.",
)
LAG_MAX = MetricDescription(
    "isthmus_replication_lag_records_max", _GAUGE, _TOPIC, "Offsets still to copy in the partition that has most."
)
LAG_S = MetricDescription(
    "isthmus_replication_lag_seconds",
    _GAUGE,
    _TOPIC,
    "How long ago this process first saw, at the source, the oldest record that is not copied; the largest of all "
    "partitions, 0 when nothing is to be copied.",
)
STATE = MetricDescription(
    "isthmus_mirror_state",
    _GAUGE,
    _TOPIC,
    "1 for the state the topic is in, that of the partition that needs most attention; other states have no series.",
    ("state",),
)
PARTITIONS = MetricDescription("isthmus_mirror_partitions", _GAUGE, _TOPIC, "Partitions of the topic.")
REPORT_AGE = MetricDescription(
    "isthmus_report_age_seconds", _GAUGE, _TOPIC, "The age of the oldest report about the topic's partitions."
)
GAP_RECORDS = MetricDescription(
    "isthmus_data_gap_records_total",
    _COUNTER,
    _TOPIC,
    "Offsets that the source deleted before they were copied, as seen by this process.",
    ("reason",),
)
FLAGS_REPLACED = MetricDescription(
    "isthmus_copy_flags_replaced_total",
    _COUNTER,
    _TOPIC,
    "Records whose header of copy flags was invalid, or that had several, since their distributor began.",
)
FILTERED = MetricDescription(
    "isthmus_transform_filtered_records_total",
    _COUNTER,
    _TOPIC,
    "Records that the transform filtered out (where, or a function that returns fewer rows), since the topic began.",
)
TRANSFORM_FAILURES = MetricDescription(
    "isthmus_transform_failures_total",
    _COUNTER,
    _TOPIC,
    "Records for which the transform has failed since their partitions began, those included whose dead letters were "
    "replayed; on_error is whether "
    "such records are skipped or become dead letters now.",
    ("on_error",),
)
AUTH_ERRORS = MetricDescription(
    "isthmus_auth_errors_total", _COUNTER, _TOPIC, "How often a partition was found to lack a right, on either side."
)

PARTITION_LAG = MetricDescription("isthmus_partition_lag_records", _GAUGE, _PARTITION, "Offsets still to copy.")
PARTITION_LAG_S = MetricDescription(
    "isthmus_partition_lag_seconds", _GAUGE, _PARTITION, "As isthmus_replication_lag_seconds."
)
PARTITION_POSITION = MetricDescription(
    "isthmus_partition_position", _GAUGE, _PARTITION, "The source offset before which everything is at the target."
)
PARTITION_SOURCE_END = MetricDescription(
    "isthmus_partition_source_end", _GAUGE, _PARTITION, "The source's last stable offset as last seen."
)
PARTITION_RECORDS = MetricDescription(
    "isthmus_partition_records_replicated_total", _COUNTER, _PARTITION, "Records copied."
)

METRICS: Final = (
    BUILD,
    PROGRESS_AGE,
    UP,
    LINK_STATE,
    LINK_RECORDS,
    LINK_BYTES,
    LINK_LAG,
    LINK_LAG_S,
    LINK_TOPICS,
    LINK_PARTITIONS,
    LINK_LEFT_OUT,
    LATENCY,
    PROBLEMS,
    SOURCE_ERRORS,
    TARGET_ERRORS,
    LEASES,
    WORKER_CPU,
    WORKER_MEMORY,
    THROTTLED,
    TASK_STATE,
    GROUPS,
    GROUP_AGE,
    GROUP_UNDERSHOOT,
    RECORDS,
    BYTES,
    LAG,
    WAITING,
    WAITING_S,
    LAG_MAX,
    LAG_S,
    STATE,
    PARTITIONS,
    REPORT_AGE,
    GAP_RECORDS,
    FLAGS_REPLACED,
    TRANSFORM_FAILURES,
    FILTERED,
    AUTH_ERRORS,
    PARTITION_LAG,
    PARTITION_LAG_S,
    PARTITION_POSITION,
    PARTITION_SOURCE_END,
    PARTITION_RECORDS,
)

OF_A_RUN: Final = frozenset(
    each.name
    for each in (
        UP,
        LINK_RECORDS,
        LINK_BYTES,
        LATENCY,
        LEASES,
        WORKER_CPU,
        WORKER_MEMORY,
        THROTTLED,
        RECORDS,
        BYTES,
        PARTITION_RECORDS,
    )
)
"""Metrics that only the process of a run knows: one that only observes cannot report them."""

_GATEWAY, _CLIENT = MetricScope.GATEWAY, ("software", "version")

GATEWAY_PROCESSES = MetricDescription("isthmus_gateway_processes", _GAUGE, _GATEWAY, "Processes that take connections.")
GATEWAY_BROKERS = MetricDescription("isthmus_gateway_brokers", _GAUGE, _GATEWAY, "Brokers that the cluster names.")
GATEWAY_METADATA_AGE = MetricDescription(
    "isthmus_gateway_metadata_age_seconds",
    _GAUGE,
    _GATEWAY,
    "How long ago the cluster last reported which brokers there are; it is asked every five seconds.",
)
GATEWAY_GATHERED = MetricDescription(
    "isthmus_gateway_gathered_bytes", _GAUGE, _GATEWAY, "The memory of large requests and answers that are gathered."
)
GATEWAY_REFUSED = MetricDescription(
    "isthmus_gateway_refused_total", _COUNTER, _GATEWAY, "Connections that were ended, by reason.", ("reason",)
)
GATEWAY_CONNECTIONS = MetricDescription(
    "isthmus_gateway_connections",
    _GAUGE,
    _GATEWAY,
    "Open connections, by the software that clients report; beyond 100 kinds the rest are others.",
    _CLIENT,
)
GATEWAY_CONNECTED = MetricDescription(
    "isthmus_gateway_connections_total", _COUNTER, _GATEWAY, "Connections there ever were.", _CLIENT
)
GATEWAY_REQUESTS = MetricDescription(
    "isthmus_gateway_requests_total", _COUNTER, _GATEWAY, "Requests that clients have sent.", _CLIENT
)
GATEWAY_BYTES = MetricDescription(
    "isthmus_gateway_bytes_total",
    _COUNTER,
    _GATEWAY,
    "Bytes of requests, and of answers, that have come.",
    (*_CLIENT, "direction"),
)

GATEWAY_METRICS: Final = (
    BUILD,
    GATEWAY_PROCESSES,
    GATEWAY_BROKERS,
    GATEWAY_METADATA_AGE,
    GATEWAY_GATHERED,
    GATEWAY_REFUSED,
    GATEWAY_CONNECTIONS,
    GATEWAY_CONNECTED,
    GATEWAY_REQUESTS,
    GATEWAY_BYTES,
)
"""The metrics of `isthmus gateway --metrics`."""
