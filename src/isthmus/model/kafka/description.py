"""A cluster as it describes itself: brokers, controller, quorum, features and open transactions."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.partitions import BrokerLoad, PartitionState
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.text.plain import Hidden, PlainValue, computed_field


class MetadataMode(enum.StrEnum):
    """Where a cluster keeps its metadata."""

    KRAFT = "kraft"
    ZOOKEEPER = "zookeeper"


class BrokerDescription(NamedTuple):
    """One broker at the listener that we used. `version` is the Kafka release that its offered versions imply.

    If several releases offer the same versions, it names them: `3.3 or 3.4`.

    A fenced broker (KIP-841) is registered and serves no clients: it is starting, stopped or cut off.
    """

    node_id: int
    host: str
    port: int
    rack: str | None
    version: str | None = None
    is_fenced: bool = False

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"


class QuorumReplica(NamedTuple):
    """A node that follows the metadata log. Unknown values are `None`; the leader itself has no lag.

    `lag_records` is how far its log end is behind the leader's, `lag_ms` how long ago it had caught up.
    """

    node_id: int
    log_end: int | None
    lag_records: int | None
    lag_ms: int | None
    endpoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum(PlainValue):
    """The KRaft controllers and their followers (KIP-836). `leader_id` is `None` during an election."""

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class Feature(NamedTuple):
    """A feature's level in this cluster (0 is off), and the levels the broker that was asked supports (KIP-584)."""

    name: str
    level: int
    supported_min: int
    supported_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker, and its load."""

    SCHEMA: ClassVar = "Broker"

    node_id: int
    endpoint: str
    rack: str | None
    version: str | None
    is_controller: bool
    is_fenced: bool
    replicas: int
    leaders: int
    preferred_leaders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport(PlainValue):
    """A cluster: brokers, quorum, open transactions, findings. `not_told` states why a part is missing.

    `controller` is the broker or controller node that leads. `not_told` has, part by part, the data that the brokers'
    version or our rights hide.
    """

    cluster: str
    cluster_id: str
    mode: MetadataMode
    controller: int | None
    brokers: Hidden[tuple[BrokerDescription, ...]]
    quorum: Quorum | None = None
    settings: tuple[BrokerSetting, ...] = ()
    features: tuple[Feature, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_told: Mapping[str, str] = field(default_factory=dict)
    partitions: Hidden[tuple[PartitionState, ...]] = ()
    loads: Hidden[tuple[BrokerLoad, ...]] = ()

    @computed_field(before="quorum")
    def topic_count(self) -> Annotated[int, "topics"]:
        return len({partition.topic for partition in self.partitions})

    @computed_field(before="quorum")
    def partition_count(self) -> Annotated[int, "partitions"]:
        return len(self.partitions)

    @computed_field(before="quorum")
    def broker_rows(self) -> Annotated[tuple[BrokerRow, ...], "brokers"]:
        """The brokers with their load."""
        loads = {load.node_id: load for load in self.loads}
        return tuple(self._row(broker, loads.get(broker.node_id)) for broker in self.brokers)

    def _row(self, broker: BrokerDescription, load: BrokerLoad | None) -> BrokerRow:
        return BrokerRow(
            node_id=broker.node_id,
            endpoint=broker.endpoint,
            rack=broker.rack,
            version=broker.version,
            is_controller=broker.node_id == self.controller,
            is_fenced=broker.is_fenced,
            replicas=0 if load is None else load.replicas,
            leaders=0 if load is None else load.leaders,
            preferred_leaders=0 if load is None else load.preferred,
        )
