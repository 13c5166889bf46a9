"""A topic deleted and created again as it was."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

from isthmus.cluster.changes import NewTopic, await_leaders, create_topics, delete_topic, is_there_already
from isthmus.control.recovery.sides import BothTopics, described
from isthmus.control.topics.creation import FILLING
from isthmus.errors import ClusterError, GateNotMet
from isthmus.model.topic import TopicDescription
from isthmus.wire import codes
from isthmus.wire.client import Client

_LOOK_S: Final = 0.1
_TERM_S: Final = 60.0


def configs_of(both: BothTopics, there: TopicDescription) -> tuple[tuple[str, str], ...]:
    """What the topic was configured with, made so that it can be filled from where the source's log begins."""
    configs = there.own_configs
    begins = any(log.start > 0 for log in both.source_logs.values())
    if begins and "delete" not in there.cleanup_policy.split(","):
        # The link gives it back its policy once the offsets before the first record are filled and deleted.
        configs.update(FILLING)
    return tuple(sorted(configs.items()))


async def delete(target: Client, topic: str, topic_id: uuid.UUID) -> None:
    """Delete a topic and wait until brokers know it no more. What has its name by now is left alone.

    :raises GateNotMet: The brokers take too long.
    :raises ClusterError: It was refused.
    """
    deadline = time.monotonic() + _TERM_S
    await delete_topic(target, topic_id, topic)
    while True:
        found = (await target.metadata([topic])).topics[topic]
        if found.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION or found.topic_id != topic_id:
            return
        if time.monotonic() > deadline:
            raise GateNotMet(
                f"{target.cluster.alias} has not deleted topic {topic} within {_TERM_S:g} s",
                hint="See that its brokers are up and delete.topic.enable is true; then give the command again.",
            )
        await asyncio.sleep(_LOOK_S)


async def create(target: Client, new: NewTopic) -> uuid.UUID:
    """Create a topic, unless it is there by now; its id, once all partitions have leaders.

    :raises ClusterError: It was refused, or gets no leaders.
    """
    deadline = time.monotonic() + _TERM_S
    while True:
        error = (await create_topics(target, [new])).errors.get(new.name)
        if error is not None and not is_there_already(error):
            raise error
        # While it is being deleted it is neither there nor can it be created.
        if new.name in await await_leaders(target, {new.name: new.partition_count}):
            found = await described(target, new.name)
            if found is not None:
                return found.topic_id
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{target.cluster.alias} has not created topic {new.name} within {_TERM_S:g} s",
                cluster=target.cluster.alias,
                hint="See that its brokers are up; then give the command again: it goes on from here.",
            )
        await asyncio.sleep(_LOOK_S)
