"""A cluster as it describes itself: brokers, controller, quorum, features and open transactions."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypedDict

from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.findings import Finding, FindingJson
from isthmus.model.kafka.partitions import BrokerLoad, PartitionState
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.text.plain import OwnFields, plain, plain_fields


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
    """A node that follows the metadata log. What is not known is `None`; the leader itself has no lag.

    `lag_records` is how far its log end is behind the leader's, `lag_ms` how long ago it had caught up.
    """

    node_id: int
    log_end: int | None
    lag_records: int | None
    lag_ms: int | None
    endpoints: tuple[str, ...] = ()

    def as_dict(self) -> OwnFields:
        """Plain values under stable names."""
        return plain_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The KRaft controllers and who follows them (KIP-836). `leader_id` is `None` during an election."""

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    def as_dict(self) -> OwnFields:
        """Plain values under stable names."""
        return plain_fields(self)


class Feature(NamedTuple):
    """A feature's level in this cluster (0 is off), and the levels the broker that was asked supports (KIP-584)."""

    name: str
    level: int
    supported_min: int
    supported_max: int


class BrokerJson(TypedDict):
    """A broker, and what it bears."""

    node_id: int
    endpoint: str
    rack: str | None
    version: str | None
    is_controller: bool
    is_fenced: bool
    replicas: int
    leaders: int
    preferred_leaders: int


class ClusterReportJson(TypedDict):
    """A cluster: brokers, quorum, open transactions, findings. `not_told` says why something is missing."""

    cluster: str
    cluster_id: str
    mode: Annotated[str, MetadataMode]
    controller: int | None
    topics: int
    partitions: int
    brokers: list[BrokerJson]
    quorum: Annotated[dict[str, Any], Quorum] | None
    settings: list[Annotated[dict[str, Any], BrokerSetting]]
    features: list[Annotated[dict[str, Any], Feature]]
    transactions: list[Annotated[dict[str, Any], OpenTransaction]]
    findings: list[FindingJson]
    not_told: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """One cluster, with the findings about it.

    `controller` is the broker or controller node that leads. `not_told` has, part by part, the data that the brokers'
    version or our rights hide.
    """

    cluster: str
    cluster_id: str
    mode: MetadataMode
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    quorum: Quorum | None = None
    features: tuple[Feature, ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    loads: tuple[BrokerLoad, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    settings: tuple[BrokerSetting, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_told: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> ClusterReportJson:
        """Plain values under stable names; partitions only as numbers, since there may be many."""
        return {
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "mode": str(self.mode),
            "controller": self.controller,
            "topics": len({partition.topic for partition in self.partitions}),
            "partitions": len(self.partitions),
            "brokers": self.broker_rows(),
            "quorum": None if self.quorum is None else self.quorum.as_dict(),
            "settings": plain(self.settings),
            "features": [feature._asdict() for feature in self.features],
            "transactions": plain(self.transactions),
            "findings": plain(self.findings),
            "not_told": dict(self.not_told),
        }

    def broker_rows(self) -> list[BrokerJson]:
        """Return the brokers with their load, under stable names."""
        loads = {load.node_id: load for load in self.loads}
        return [
            {
                "node_id": broker.node_id,
                "endpoint": broker.endpoint,
                "rack": broker.rack,
                "version": broker.version,
                "is_controller": broker.node_id == self.controller,
                "is_fenced": broker.is_fenced,
                "replicas": loads[broker.node_id].replicas if broker.node_id in loads else 0,
                "leaders": loads[broker.node_id].leaders if broker.node_id in loads else 0,
                "preferred_leaders": loads[broker.node_id].preferred if broker.node_id in loads else 0,
            }
            for broker in self.brokers
        ]
