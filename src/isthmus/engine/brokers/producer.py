"""Producer ids of a link: one for its records, one for its control records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """The producer ids that write for a link at one target cluster: kept in the ledger, keyed by the cluster's id.

    Records carry `producer_id`; control records that stand for the source's markers and holes carry
    `marker_producer_id`, so that they never disturb the sequence of the records.
    """

    producer_id: int
    marker_producer_id: int
    epoch: int = 0
