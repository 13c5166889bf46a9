"""The writers to partitions that should be quiet, as far as leaders and coordinators report them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import Final

from isthmus.errors import ClusterError, GateNotMet
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.transactions.aborting import transactions_in
from isthmus.kafka.transactions.producers import active_producers
from isthmus.model.kafka.partitions import NO_LEADER
from isthmus.model.text.wording import first_few

_BETWEEN_LOOKS_S: Final = 1.0


def format_partitions(keys: Iterable[PartitionKey]) -> str:
    """Return some partitions by name, and how many more there are."""
    return first_few(f"{topic}-{partition}" for topic, partition in sorted(keys))


async def owners_in(client: Client, held: Collection[PartitionKey]) -> tuple[str, ...]:
    """Return the owners of open transactions in partitions of a cluster; none where they cannot be read."""
    try:
        found = await transactions_in(client, {topic for topic, _ in held})
    except ClusterError:
        return ()
    return tuple(sorted({each.owner for each in found if (each.topic, each.partition) in held}))


def build_undecided(
    client: Client, held: Collection[PartitionKey], owners: Collection[str], *, is_to_stay: bool = False
) -> GateNotMet:
    """Return the error that transactions are open in partitions of a cluster, and whose. If the topic of a follower
    `is_to_stay`, no process ends those that a lane has left open.
    """
    alias = client.cluster.alias
    ways = " If a lane has left it open, only --way rebuild ends it, with the topic." if is_to_stay else ""
    return GateNotMet(
        f"a transaction is open in {format_partitions(held)} of {alias}{': ' if owners else ''}{first_few(owners)}",
        hint=f"isthmus cluster topics {alias} shows it; end its producer, then run the command again.{ways}",
    )


async def build_written_to(client: Client, moved: Collection[PartitionKey]) -> GateNotMet:
    """Return the error that partitions are written to, with the producers that their leaders remember."""
    where, who = f"{format_partitions(moved)} of {client.cluster.alias}" if moved else client.cluster.alias, ""
    with contextlib.suppress(ClusterError):
        who = first_few(str(each) for each in sorted(await _at_work(client, moved)))
    return GateNotMet(
        f"a producer writes to {where}{': producer ' if who else ''}{who}",
        hint="Stop the producers there first, or keep them out (isthmus namespace update --enforce, or deny WRITE); "
        "then run the command again. kafka-transactions describe-producers shows details of one; producers without "
        "idempotence have no id.",
    )


async def _at_work(client: Client, keys: Collection[PartitionKey]) -> set[int]:
    """Return the producers that wrote to partitions between two looks. Needs READ on the topics, and Kafka 3.0."""
    if not keys:
        return set()
    states = partitions_of(await client.metadata(sorted({topic for topic, _ in keys})))
    leaders = {
        (each.topic, each.partition): each.leader
        for each in states
        if (each.topic, each.partition) in keys and each.leader != NO_LEADER
    }
    before = (await active_producers(client, leaders)).values
    await asyncio.sleep(_BETWEEN_LOOKS_S)
    after = (await active_producers(client, leaders)).values
    return {one.producer_id for key, found in after.items() for one in set(found) - set(before.get(key, found))}
