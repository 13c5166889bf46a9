"""The progress of links in plain values: the keys of what `isthmus status -o json` prints and REST answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from isthmus.model.gateways.synchrony import SynchronyJson
from isthmus.model.kafka.topic import PartedJson
from isthmus.model.kafka.transactions import AbortedPolicy, OpenTransaction
from isthmus.model.lane import LaneState
from isthmus.model.links.pair import PairState
from isthmus.model.links.pauses import PauseJson
from isthmus.model.links.writability import KeptBy
from isthmus.model.loop import LoopStatusJson
from isthmus.model.problem import ProblemJson
from isthmus.model.state import ControllerState, LinkState


class OffsetRangeJson(TypedDict):
    """Offsets of the source, half open."""

    offset_begin: int
    offset_end: int


class MapPlaceJson(TypedDict):
    """What else there is of a partition whose offsets are mapped."""

    copied_end: NotRequired[int | None]
    copied_records: NotRequired[int | None]
    copy_flags_replaced: NotRequired[int]


class PartitionStatusJson(MapPlaceJson):
    """How a partition of a link stands; what is unknown is null."""

    topic: str
    partition: int
    state: Annotated[str, LaneState]
    state_age_seconds: float
    source_end: int | None
    source_end_age_seconds: float | None
    target_end: int | None
    target_end_age_seconds: float | None
    lag_records: int | None
    lag_seconds: float | None
    waiting_records: int | None
    waiting_seconds: float | None
    records_per_second: float | None
    gaps: list[OffsetRangeJson]
    problem: ProblemJson | None


class TopicStatusJson(TypedDict):
    """How a topic of a link stands; what is unknown is null."""

    topic: str
    source_topic: str
    name: str
    hops: int | None
    upstream_clusters: list[str]
    offsets: Literal["same", "mapped"]
    parted: PartedJson | None
    state: Annotated[str, LaneState]
    source_end: int | None
    target_end: int | None
    lag_records: int | None
    lag_records_min: int
    lag_seconds: float | None
    waiting_records: int | None
    records_per_second: float | None
    age_seconds: float
    problem: ProblemJson | None
    partitions: list[PartitionStatusJson]


class GroupStatusJson(TypedDict):
    """How a consumer group stands that a link carries."""

    group: str
    standing: str
    age_seconds: float
    problem: ProblemJson | None


class ControllerStatusJson(TypedDict):
    """The process that runs a link; what is unknown is null."""

    state: Annotated[str, ControllerState]
    heard_seconds_ago: float | None
    host: str | None
    pid: int | None
    started: str | None
    version: str | None


class NamespacePairJson(TypedDict):
    """Two namespaces of which one follows the other; `kept_by` is what keeps others out of that, null while it is not
    known to be reserved, and `bypass` is "possible" where clients of brokers get past that.
    """

    source: str
    target: str
    state: Annotated[str, PairState]
    kept_by: Annotated[str, KeptBy] | None
    bypass: Literal["possible"] | None


class LinkStatusJson(TypedDict):
    """How a link stands."""

    link: str
    source: str
    target: str
    state: Annotated[str, LinkState]
    pair_state: Annotated[str, PairState]
    pairs: list[NamespacePairJson]
    sync: SynchronyJson | None
    unread: list[str]
    controller: ControllerStatusJson
    lag_records: int | None
    lag_records_min: int
    topics_in_trouble: int
    waiting_records: int | None
    transactions: list[Annotated[dict[str, Any], OpenTransaction]]
    aborted: Annotated[str, AbortedPolicy] | None
    problem: ProblemJson | None
    pauses: list[PauseJson]
    topics: list[TopicStatusJson]
    groups: list[GroupStatusJson]
    loops: list[LoopStatusJson]
