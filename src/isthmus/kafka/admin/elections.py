"""Elects preferred leaders: ElectLeaders (API 43, KIP-460)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kafka.protocol.admin import ElectLeadersRequest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.kafka.elections import Election, ElectionOutcome
from isthmus.model.kafka.rights import on_cluster

_PREFERRED: Final = 0
_TIMEOUT_S: Final = 30.0
_CONTROLLER_RETRIES: Final = 5
_RETRY_S: Final = 0.3
_WHAT: Final = "electing preferred leaders"
_NO_ANSWER: Final = (codes.REQUEST_TIMED_OUT, "the controller did not answer for this partition")


async def elect(client: Client, elections: Sequence[Election]) -> tuple[Election, ...]:
    """Hold the pending elections. Return all elections with their outcomes. Needs ALTER on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises ClusterError: The controller did not answer.
    """
    pending = [each for each in elections if each.outcome is ElectionOutcome.PENDING]
    results = await _ask(client, pending) if pending else {}
    return tuple(
        _judge(each, *results.get((each.topic, each.partition), _NO_ANSWER))
        if each.outcome is ElectionOutcome.PENDING
        else each
        for each in elections
    )


def _judge(election: Election, code: int, message: str | None) -> Election:
    if code == codes.NONE:
        return replace(election, outcome=ElectionOutcome.ELECTED)
    if code == codes.ELECTION_NOT_NEEDED:
        return replace(election, outcome=ElectionOutcome.NOT_NEEDED)
    return replace(election, outcome=ElectionOutcome.FAILED, detail=message or codes.name_of(code))


async def _ask(client: Client, pending: Sequence[Election]) -> dict[PartitionKey, tuple[int, str | None]]:
    for attempt in range(_CONTROLLER_RETRIES):
        answer = await client.controller(_request(pending), timeout_s=_TIMEOUT_S + 5.0)
        codes.raise_for_code(answer.error_code, _WHAT, on_cluster("ALTER"), cluster=client.cluster.alias)
        results: dict[PartitionKey, tuple[int, str | None]] = {
            (topic.topic, result.partition_id): (result.error_code, result.error_message)
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }
        # With ZooKeeper only the controller itself holds elections; if it has moved, nothing was done.
        moved = any(code == codes.NOT_CONTROLLER for code, _ in results.values())
        if not moved or attempt == _CONTROLLER_RETRIES - 1:
            break
        await asyncio.sleep(_RETRY_S)
        await client.metadata()
    return results


def _request(pending: Sequence[Election]) -> Any:
    topics: dict[str, list[int]] = defaultdict(list)
    for election in pending:
        topics[election.topic].append(election.partition)
    return ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
        timeout_ms=int(_TIMEOUT_S * 1000),
        # Version 0 has neither the type of election nor an error code of the whole request.
        min_version=1,
    )
