"""Delete a topic and create it again as it was."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, GateNotMet
from isthmus.kafka import codes
from isthmus.kafka.admin.changes import (
    BROKER_DEFAULT,
    NewTopic,
    add_partitions,
    await_leaders,
    create_topics,
    delete_topic,
    is_there_already,
)
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.client import Client
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.kafka.topic import Settings, TopicDescription
from isthmus.model.text.wording import format_count
from isthmus.recovery.sides import BothTopics, find_topic, logs_of
from isthmus.topics.creation import FILLING, FILLING_COMPACTED, is_policy_kept
from isthmus.topics.preflight import is_compacted

_LOOK_S: Final = 0.1
_TERM_S: Final = 60.0


class Rebuilding(NamedTuple):
    """The configuration to create a topic with again, and the settings it gets once it is filled (see `TopicIds`)."""

    configs: tuple[tuple[str, str], ...]
    settles: Settings = ()


def rebuilding_of(both: BothTopics, there: TopicDescription, settings: ConfigSettings, before: Settings) -> Rebuilding:
    """Return the topic's configuration, changed so that it can be filled from where the source's log begins, and with
    records without keys if the source is compacted now. `before` are settings that it was still to get itself.
    """
    configs = there.own_configs
    former = before or tuple((name, configs.get(name)) for name in FILLING)
    if is_compacted(both.source) and not is_policy_kept(both.source, settings):
        filling = FILLING if any(log.end > 0 for log in both.source_logs.values()) else {}
    else:
        begins = any(log.start > 0 for log in both.source_logs.values())
        filling = FILLING_COMPACTED if begins and "delete" not in there.cleanup_policy.split(",") else {}
    configs.update(filling)
    return Rebuilding(tuple(sorted(configs.items())), former if filling else ())


async def delete(target: Client, topic: str, topic_id: uuid.UUID) -> None:
    """Delete a topic and wait until brokers no longer know it. Another topic that has its name by now is left alone.

    :raises GateNotMet: The brokers take too long.
    :raises ClusterError: The deletion was refused.
    """
    deadline = Deadline(_TERM_S)
    await delete_topic(target, topic_id, topic)
    while True:
        found = (await target.metadata([topic])).topics[topic]
        if found.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION or found.topic_id != topic_id:
            return
        if deadline.has_passed:
            raise GateNotMet(
                f"{target.cluster.alias} has not deleted topic {topic} within {_TERM_S:g} s",
                hint="See that its brokers are up and delete.topic.enable is true; then give the command again.",
            )
        await asyncio.sleep(_LOOK_S)


async def create(target: Client, new: NewTopic) -> uuid.UUID:
    """Create a topic; return its id, once all partitions have leaders. A topic that another client, or a broker by
    itself (`auto.create.topics.enable`), has created meanwhile is changed as wanted, if it is empty and that is
    possible.

    :raises GateNotMet: It is there already, and holds records, or has more partitions or other replicas.
    :raises ClusterError: The creation was refused, or partitions get no leaders.
    """
    deadline = Deadline(_TERM_S)
    while True:
        error = (await create_topics(target, [new])).errors.get(new.name)
        if error is not None and not is_there_already(error):
            raise error
        # While it is being deleted it neither exists nor can be created.
        found = await find_topic(target, new.name)
        if found is not None:
            await make_as(target, found, new)
            if new.name in await await_leaders(target, {new.name: new.partition_count}):
                return found.topic_id
        if deadline.has_passed:
            raise ClusterError(
                f"{target.cluster.alias} has not created topic {new.name} within {_TERM_S:g} s",
                cluster=target.cluster.alias,
                hint="See that its brokers are up; then give the command again: it goes on from here.",
            )
        await asyncio.sleep(_LOOK_S)


async def make_as(target: Client, there: TopicDescription, new: NewTopic) -> None:
    """Give an existing empty topic the partitions and the configuration with which it was to be created.

    :raises GateNotMet: It cannot be made so.
    :raises ClusterError: A change was refused.
    """
    changes = {name: value for name, value in new.configs.items() if there.own_configs.get(name) != value}
    wrong = {**dict.fromkeys(there.own_configs.keys() - new.configs.keys()), **changes}
    if not wrong and there.partition_count == new.partition_count and _has_replicas(there, new):
        return
    why = ""
    if any(log.end > 0 for log in (await logs_of(target, there)).values()):
        why = "a producer has written to it since"
    elif there.partition_count > new.partition_count:
        why = f"it has {there.partition_count} partitions, not {new.partition_count}"
    elif not _has_replicas(there, new):
        why = f"its partitions have {format_count(there.replication_factor, 'replica')}, not {new.replication_factor}"
    if why:
        raise GateNotMet(
            f"topic {new.name} of {target.cluster.alias} was created by another client while it was rebuilt: {why}",
            hint=f"Stop who uses it (or set auto.create.topics.enable=false), delete {new.name} there once nothing in "
            "it is needed, and give the command again: it goes on from here.",
        )
    done = await alter_topic_configs(target, {new.name: wrong} if wrong else {})
    grown = await add_partitions(target, {new.name: new.partition_count} if _lacks(there, new) else {})
    for error in (*done.errors.values(), *grown.errors.values()):
        raise error


def _lacks(there: TopicDescription, new: NewTopic) -> bool:
    return there.partition_count < new.partition_count


def _has_replicas(there: TopicDescription, new: NewTopic) -> bool:
    return new.replication_factor in (BROKER_DEFAULT, there.replication_factor)
