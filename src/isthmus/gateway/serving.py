"""The cluster that a gateway serves, as far as what passes depends on which one that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from isthmus.gateway.hidden import NOTHING_HIDDEN, HiddenTopics
from isthmus.gateway.reserved import NOTHING_RESERVED, ReservedNames
from isthmus.model.carriedproducers import CarriedProducers
from isthmus.model.carriedtransactions import CarriedTransactions
from isthmus.model.producerids import cluster_tag
from isthmus.wire.offsets import PartitionKey

_AGAIN_FROM: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What requests and answers of a cluster are looked at by. `tag` marks producer ids of it, 0 leaves them as they
    are; clients have moved `stay` times until now. `common` is up to where partitions are the same as at the cluster
    that clients came from, and `epochs` are the leader epochs they had when that was looked at last.
    `carried` is what is known of producers from there, and `transactions` of their transactions; `reserved` names are
    written by links alone, and `hidden` topics are read by nobody.
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
        """Whether producers are looked at in every request, or in every one that `is_within` a transaction: some may go
        on that wrote elsewhere, or be here again.
        """
        return bool(self.carried) or self.stay >= _AGAIN_FROM or (is_within and bool(self.transactions))

    @classmethod
    def of(cls, cluster_id: str | None) -> Self:
        """For the cluster of this id, where it has told one."""
        return cls(tag=cluster_tag(cluster_id) if cluster_id else 0)


ANY: Final = Serving()
