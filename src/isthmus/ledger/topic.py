"""The topic of the ledger: one compacted partition per target cluster, shared by all links into it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.changes import BROKER_DEFAULT, NewTopic, create_topics, is_there_already
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogPlace, build_leaderless, places_of
from isthmus.kafka.metadata import Metadata
from isthmus.model import naming
from isthmus.model.kafka import rights

LEDGER_TOPIC: Final = naming.LEDGER_TOPIC
PARTITION: Final = 0
LEDGER: Final = (LEDGER_TOPIC, PARTITION)
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Progress is written every second: small segments, compacted early, keep a full read short.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    # One document lists all lanes of a slot.
    "max.message.bytes": str(8 << 20),
}
_CREATION_S: Final = 20.0
_LEADER_TERM_S: Final = 10.0
_PAUSE_S: Final = 0.05
_RETRY_S: Final = 0.1
_T = TypeVar("_T")


async def ensure_topic(client: Client, *, replication_factor: int | None = None) -> None:
    """Create the ledger's topic unless it is there, and wait until a broker knows it. Needs CREATE on it or on the
    cluster.

    :raises ClusterError: The topic is missing and cannot be created, or has no leader.
    """
    metadata = await client.metadata([LEDGER_TOPIC])
    if metadata.topics[LEDGER_TOPIC].error_code != codes.UNKNOWN_TOPIC_OR_PARTITION:
        return
    error = await _create(client, replication_factor, _CONFIGS)
    if isinstance(error, BrokerRefused) and error.code in (codes.INVALID_CONFIG, codes.POLICY_VIOLATION):
        # Some providers allow few settings, and only compaction is required.
        error = await _create(client, replication_factor, {"cleanup.policy": "compact"})
    if error is not None and not is_there_already(error):
        raise error
    deadline = Deadline(_CREATION_S)
    while True:
        # The controller answers before the brokers know the topic.
        try:
            await locate(client)
            return
        except BrokerRefused as refusal:
            if not is_missing(refusal) or deadline.has_passed:
                raise
        await asyncio.sleep(_RETRY_S)


async def on_topic(client: Client, work: Callable[[], Awaitable[_T]], *, replication_factor: int | None = None) -> _T:
    """Return the result of `work`. If the ledger's topic is missing, create it, wait for it, and repeat `work`.

    A topic that another process has just created is not known to every broker at once.

    :raises ClusterError: The topic cannot be created, or `work` fails for another reason.
    """
    deadline = Deadline(_CREATION_S)
    while True:
        try:
            return await work()
        except ClusterError as error:
            if not is_missing(error) or deadline.has_passed:
                raise
        await ensure_topic(client, replication_factor=replication_factor)
        await asyncio.sleep(_RETRY_S)


async def _create(client: Client, replication_factor: int | None, configs: dict[str, str]) -> ClusterError | None:
    topic = NewTopic(
        name=LEDGER_TOPIC,
        partition_count=1,
        replication_factor=replication_factor or BROKER_DEFAULT,
        configs=configs,
    )
    outcomes = await create_topics(client, [topic])
    return outcomes.errors.get(LEDGER_TOPIC)


async def locate(client: Client, *, term_s: float = _LEADER_TERM_S) -> LogPlace:
    """Find the leader; wait for one at most `term_s`.

    :raises BrokerRefused: With UNKNOWN_TOPIC_OR_PARTITION: no broker knows a ledger.
    :raises Unreachable: The ledger has no leader, or a broker that may know a ledger does not answer.
    :raises NotAuthorized: The right to see the topic is missing.
    """
    deadline = Deadline(term_s)
    while True:
        silent: list[int] = []
        metadata = await client.metadata([LEDGER_TOPIC])
        topic = metadata.topics[LEDGER_TOPIC]
        if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            metadata, silent = await _ask_others(client, metadata)
            topic = metadata.topics[LEDGER_TOPIC]
        if silent:
            # About ten seconds later the cluster does not list a broker that is gone.
            if deadline.has_passed:
                raise _doubt_error(client, silent)
            await asyncio.sleep(_RETRY_S)
            continue
        if topic.error_code not in (codes.NONE, codes.LEADER_NOT_AVAILABLE):
            right = rights.on_topic("DESCRIBE", LEDGER_TOPIC)
            raise codes.error_for(topic.error_code, "finding the ledger", right, cluster=client.cluster.alias)
        if place := places_of(metadata, LEDGER_TOPIC).get(PARTITION):
            return place
        if deadline.has_passed:
            raise build_leaderless(LEDGER_TOPIC, client.cluster.alias)
        await asyncio.sleep(_PAUSE_S)


async def _ask_others(client: Client, metadata: Metadata) -> tuple[Metadata, list[int]]:
    """Ask the other brokers. Return the metadata of one that knows the ledger, or else the brokers that did not answer.
    A broker that has just started may not know an existing ledger; believing it could start a second controller.
    """
    silent: list[int] = []
    for node_id in sorted(metadata.brokers):
        try:
            other = await client.metadata([LEDGER_TOPIC], node_id=node_id)
        except Unreachable:
            silent.append(node_id)
            continue
        if other.topics[LEDGER_TOPIC].error_code != codes.UNKNOWN_TOPIC_OR_PARTITION:
            return other, []
    return metadata, silent


def _doubt_error(client: Client, silent: Sequence[int]) -> Unreachable:
    alias, nodes = client.cluster.alias, ", ".join(map(str, silent))
    return Unreachable(
        f"whether {alias} has a ledger is not known: broker {nodes} does not answer, and the others know of none",
        cluster=alias,
        hint=f"Bring broker {nodes} back, or make it reachable from here: Isthmus tries again.",
    )


def is_missing(error: ClusterError) -> bool:
    """Whether the error means that there is no such topic."""
    return isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
