"""The clock of a cluster's controller, the only clock of a cluster that can be read without writing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from isthmus.errors import UnsupportedByBroker
from isthmus.kafka.admin.quorum import metadata_log
from isthmus.kafka.client import Client

_MS_PER_S = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """How far the controller's clock is ahead of ours, give or take `uncertainty_ms`."""

    ahead_ms: float
    uncertainty_ms: float


async def controller_clock(client: Client) -> ClockReading | None:
    """Read the clock of the active KRaft controller; `None` if the cluster has none or does not report it.

    DescribeQuorum (KIP-836, from Kafka 3.3 on) says when each replica of the metadata log caught
    up, and for the leader itself that is the moment of the answer. Needs DESCRIBE on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: No broker answered.
    """
    asked = time.time() * _MS_PER_S
    try:
        described, _ = await metadata_log(client)
    except UnsupportedByBroker:
        return None
    answered = time.time() * _MS_PER_S
    for replica in described.current_voters:
        if replica.replica_id == described.leader_id and replica.last_caught_up_timestamp > 0:
            middle = (asked + answered) / 2
            return ClockReading(
                ahead_ms=replica.last_caught_up_timestamp - middle,
                uncertainty_ms=(answered - asked) / 2,
            )
    return None
