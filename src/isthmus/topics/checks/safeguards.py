"""The settings and abilities of the brokers of a target that limit how far exactly-once reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from isthmus.engine.target import DESCRIBE_PRODUCERS
from isthmus.errors import ClusterError
from isthmus.kafka.admin.configs import describe_broker_configs
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.transactions.producers import active_producers
from isthmus.model.kafka.topic import Configs
from isthmus.topics.aborted import VERIFICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """`expiration_ms` is `producer.id.expiration.ms`, the smallest of all brokers; `None` if one does not show it.

    `verifies_transactions`: a broker asks a coordinator before it accepts the first record of a transaction
    (`transaction.partition.verification.enable`, KIP-890); `None` if no broker shows it. `tells_producers`: all brokers
    can describe producers (KIP-664). A broker that does not answer now is skipped.
    """

    expiration_ms: int | None
    verifies_transactions: bool | None
    tells_producers: bool = True


async def safeguards(target: Client) -> Safeguards:
    """Ask every broker. Needs DESCRIBE_CONFIGS on the cluster.

    :raises ClusterError: The cluster did not answer.
    """
    nodes = (await target.metadata()).brokers
    answers = await asyncio.gather(*(_describe_broker(target, node_id) for node_id in nodes))
    ages = _values(answers, "producer.id.expiration.ms")
    known_configs = [configs for configs in answers if configs]
    return Safeguards(
        expiration_ms=None if None in ages else min((int(age) for age in ages if age), default=None),
        verifies_transactions="true" in _values(known_configs, VERIFICATION) if known_configs else None,
        tells_producers=all(await asyncio.gather(*(_tells_producers(target, node_id) for node_id in nodes))),
    )


async def _tells_producers(target: Client, node_id: int) -> bool:
    try:
        return DESCRIBE_PRODUCERS in (await target.connection(node_id)).api_versions
    except ClusterError:
        return True


async def _describe_broker(target: Client, node_id: int) -> Configs:
    try:
        return await describe_broker_configs(target, node_id)
    except ClusterError:
        return {}


def _values(settings: Iterable[Configs], name: str) -> list[str | None]:
    return [configs[name].value if name in configs else None for configs in settings]


async def transactional_topics(source: Client, found: Metadata, names: Collection[str]) -> frozenset[str]:
    """Find the topics that transactions were written to, as long as leaders know their producers (a day by default)."""
    leaders = {
        (str(name), p.partition): p.leader
        for name in names
        for p in found.topics[name].partitions
        if p.leader in found.brokers
    }
    producers = await active_producers(source, leaders)
    return frozenset(
        name for (name, _), known in producers.values.items() if any(each.is_transactional for each in known)
    )
