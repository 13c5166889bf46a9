"""The state of the served cluster on which the handling of requests and answers depends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from isthmus.gateway.frames.hidden import NOTHING_HIDDEN, HiddenTopics
from isthmus.gateway.frames.reserved import NOTHING_RESERVED, ReservedNames
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.gateways.carriedproducers import CarriedProducers
from isthmus.model.gateways.carriedtransactions import CarriedTransactions
from isthmus.model.gateways.producerids import cluster_tag

_AGAIN_FROM: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The state by which requests and answers of a cluster are examined. `tag` marks its producer ids, 0 leaves them
    unchanged; clients have moved `stay` times until now. `common` are the ends up to which partitions equal those of
    the cluster that clients came from, and `epochs` the leader epochs at the last look at these. `carried` are the
    producers from there, and `transactions` their transactions; only links write `reserved` names, and `hidden` topics
    must not be read.
    """

    tag: int = 0
    stay: int = 0
    common: dict[PartitionKey, int] = field(default_factory=dict)
    epochs: dict[PartitionKey, int] = field(default_factory=dict)
    carried: CarriedProducers = field(default_factory=CarriedProducers)
    transactions: CarriedTransactions = field(default_factory=CarriedTransactions)
    reserved: ReservedNames = NOTHING_RESERVED
    hidden: HiddenTopics = NOTHING_HIDDEN

    def judges(self, *, is_within: bool) -> bool:
        """Whether producers are checked in every request, or in every one that `is_within` a transaction: some may have
        written elsewhere, or have come back.
        """
        return bool(self.carried) or self.stay >= _AGAIN_FROM or (is_within and bool(self.transactions))

    @classmethod
    def of(cls, cluster_id: str | None) -> Self:
        """Build it for the cluster with this id, if that is known."""
        return cls(tag=cluster_tag(cluster_id) if cluster_id else 0)


ANY: Final = Serving()
