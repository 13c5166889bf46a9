"""Faults of brokers: what is done to one, and how it is undone."""

from __future__ import annotations

import asyncio
import enum
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from isthmus.kafka.client import Client
from isthmus.local import LocalBroker, LocalCluster
from testing.patience import TERM_S

_IN_SYNC_S: Final = TERM_S
PAUSE_S: Final = (5.0, 20.0)


class Fault(enum.Enum):
    """What may happen to a broker."""

    KILL = enum.auto()
    PAUSE = enum.auto()
    RESTART = enum.auto()


@asynccontextmanager
async def struck(broker: LocalBroker, fault: Fault, chance: random.Random) -> AsyncIterator[None]:
    """Do something to a broker, and undo it afterwards; a pause takes `PAUSE_S` at least."""
    match fault:
        case Fault.KILL:
            await asyncio.to_thread(broker.kill)
        case Fault.RESTART:
            await asyncio.to_thread(broker.terminate)
        case Fault.PAUSE:
            broker.pause()
    until = time.monotonic() + (chance.uniform(*PAUSE_S) if fault is Fault.PAUSE else 0.0)
    try:
        yield
        await asyncio.sleep(max(until - time.monotonic(), 0.0))
    finally:
        broker.resume()
        await asyncio.to_thread(broker.start)


async def leader(client: Client, cluster: LocalCluster, topic: str, partition: int) -> LocalBroker:
    """The broker that leads a partition now."""
    found = (await client.metadata([topic])).topics[topic].partitions[partition]
    return cluster.broker(found.leader)


async def until_in_sync(cluster: LocalCluster, *names: str, replicas: int = 3) -> None:
    """Wait until every partition of the topics has all its replicas in sync, so that one more may be lost."""
    deadline = time.monotonic() + _IN_SYNC_S
    async with Client(cluster.admin_cluster()) as client:
        while True:
            found = (await client.metadata(names)).topics
            partitions = [p for name in names for p in found[name].partitions]
            if partitions and all(len(p.isr) == replicas for p in partitions):
                return
            assert time.monotonic() < deadline, partitions
            await asyncio.sleep(0.2)
