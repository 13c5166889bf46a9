"""Producer ids: one for the records of a link, one for its control records (InitProducerId, API 22)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from kafka.protocol.producer import InitProducerIdRequest

from isthmus.model.rights import on_cluster
from isthmus.wire import codes
from isthmus.wire.client import Client

_RETRIES: Final = 100
_RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """Who writes for a link at one target cluster: kept in the ledger, keyed by the cluster's id.

    Records carry `producer_id`; control records that stand for the source's markers and holes carry
    `marker_producer_id`, so that they never disturb the sequence of the records.
    """

    producer_id: int
    marker_producer_id: int
    epoch: int = 0


async def allocate_producer(client: Client) -> int:
    """A producer id nobody else has.

    :raises ClusterError: The cluster gives none.
    """
    code = codes.NONE
    for _ in range(_RETRIES):
        answer = await client.any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
        code = answer.error_code
        if code == codes.NONE:
            return int(answer.producer_id)
        if code not in codes.COORDINATOR_MOVED:
            break
        await asyncio.sleep(_RETRY_S)
    # WRITE on any topic will do as well.
    right = on_cluster("IDEMPOTENT_WRITE")
    raise codes.error_for(code, "allocating a producer id", right, cluster=client.cluster.alias)
