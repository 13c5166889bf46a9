"""Check that all records produced on a cluster of a tree are everywhere, before it leaves the tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from isthmus.errors import GateNotMet
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_COMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.memory.declarations import Declarations
from isthmus.memory.switching import lacking
from isthmus.model.copyflags import level_of
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.model.selection import TopicSettings
from isthmus.model.trees.tree import Tree
from isthmus.topics.names import find_topics

_DRAIN_S: Final = 20.0
"""The longest wait for records that were in flight when the cluster was looked at."""
_LOOK_S: Final = 0.5
QUIET_S: Final = 5.0
"""The same as for a promotion."""


async def check_drained(
    declarations: Declarations, tree: Tree, cluster: str, selected: TopicSettings, *, quiet_s: float
) -> None:
    """Require that all records produced on a cluster, in the topics of its tree that are `selected`, are everywhere,
    and that it was not produced to for `quiet_s`: later records of a producer that only paused would not be copied.

    :raises GateNotMet: They are not, or it was.
    :raises ClusterError: A cluster does not answer, or a partition there has no leader.
    """
    source = declarations.client(cluster)
    logs = await _logs(source, selected)
    quiet_from = time.monotonic()
    deadline = quiet_from + _DRAIN_S
    for each in (one for one in tree.distributors if one.cluster == cluster):
        target = declarations.client(each.target)
        while reason := await lacking(source, target, each.name, logs):
            if time.monotonic() > deadline:
                raise GateNotMet(reason, hint="isthmus run has to run meanwhile. Then call this again.")
            await asyncio.sleep(_LOOK_S)
    while True:
        # Only the time between two looks counts as quiet, however long each takes; topics may appear meanwhile, too.
        looked_at, now = time.monotonic(), await _logs(source, selected)
        await _check_quiet(source, logs, now)
        if looked_at - quiet_from >= quiet_s:
            return
        logs = now
        await asyncio.sleep(_LOOK_S)


async def _logs(source: Client, selected: TopicSettings) -> Mapping[PartitionKey, LogRange]:
    topics = sorted((await find_topics(source, selected)).there.values())
    described = (await source.metadata(topics)).topics if topics else {}
    for topic in topics:
        # Without its partitions no log of it would be looked at.
        code = described[topic].error_code
        codes.raise_for_code(code, f"looking at {topic}", on_topic("DESCRIBE", topic), cluster=source.cluster.alias)
    keys = [(str(topic), one.partition) for topic in topics for one in described[topic].partitions]
    return (await log_ranges(source, keys)).all()


async def _check_quiet(
    source: Client, before: Mapping[PartitionKey, LogRange], now: Mapping[PartitionKey, LogRange]
) -> None:
    """Require that only distributors have written between two looks, also into partitions that appeared meanwhile.

    :raises GateNotMet: Others have written.
    :raises ClusterError: The cluster does not answer, or a partition has no leader.
    """
    reader = LogReader(source, isolation=READ_COMMITTED)
    for key, log in now.items():
        span = OffsetRange(*key, before[key].end if key in before else log.start, log.stable_end)
        if log.stable_end < log.end:
            raise GateNotMet(
                f"a transaction is open in {key[0]}-{key[1]} of {source.cluster.alias}", hint="Let its producer end it."
            )
        if span.is_empty:
            continue
        async with aclosing(reader.read(span)) as answers:
            async for stored in answers:
                if any(not one.batch.is_control and not level_of(one.batch.producer_id) for one in stored):
                    raise GateNotMet(
                        f"a producer still writes to {key[0]}-{key[1]} of {source.cluster.alias}",
                        hint="Stop the producers there first: messages that they write afterwards stay there.",
                    )
