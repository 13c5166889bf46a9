"""Asks the leaders of many partitions at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import on_topic
from isthmus.model.naming import TopicT

_ValueT = TypeVar("_ValueT")
_Asking = Callable[
    [Connection, Mapping[tuple[TopicT, int], int]], Awaitable[Mapping[tuple[TopicT, int], tuple[int, _ValueT]]]
]
_NONE: Final[Mapping[Any, int]] = MappingProxyType({})


async def ask_leaders(
    client: Client,
    keys: Collection[tuple[TopicT, int]],
    ask: _Asking[TopicT, _ValueT],
    what: str,
    *,
    operation: Literal["DESCRIBE", "READ"] = "DESCRIBE",
) -> Outcomes[tuple[TopicT, int], _ValueT]:
    """Ask the present leaders of these partitions, as `ask_nodes` does; one without a leader has an error.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    leaders, without = leaders_of(await client.metadata(sorted({topic for topic, _ in keys})), keys)
    return await ask_nodes(client, leaders, ask, what, operation=operation, without=without)


async def ask_nodes(
    client: Client,
    leaders: Mapping[int, Mapping[tuple[TopicT, int], int]],
    ask: _Asking[TopicT, _ValueT],
    what: str,
    *,
    operation: Literal["DESCRIBE", "READ"] = "DESCRIBE",
    without: Mapping[tuple[TopicT, int], int] = _NONE,
) -> Outcomes[tuple[TopicT, int], _ValueT]:
    """Call `ask` for all nodes at once, each with its connection, and its partitions with their leader epochs. It gets
    an error code and a value for each; `what` precedes the partition in errors. A partition that an answer leaves out
    has an error, as that proves nothing, and so have those `without` a leader, for these codes.
    """
    values: dict[tuple[TopicT, int], _ValueT] = {}
    errors: dict[tuple[TopicT, int], ClusterError] = {}

    def refuse(key: tuple[TopicT, int], code: int) -> None:
        named, right = f"{what} {key[0]}-{key[1]}", on_topic(operation, key[0])
        errors[key] = codes.error_for(code, named, right, cluster=client.cluster.alias)

    async def ask_one(node: int, epochs: Mapping[tuple[TopicT, int], int]) -> None:
        try:
            answers = await ask(await client.connection(node), epochs)
        except ClusterError as error:
            errors.update(dict.fromkeys(epochs, error))
            return
        for key in epochs:
            if key not in answers:
                refuse(key, codes.LEADER_NOT_AVAILABLE)
            elif answers[key][0]:
                refuse(key, answers[key][0])
            else:
                values[key] = answers[key][1]

    await asyncio.gather(*(ask_one(node, epochs) for node, epochs in leaders.items()))
    for key, code in without.items():
        refuse(key, code)
    return Outcomes(values, errors)


def leaders_of(
    metadata: Metadata, wanted: Iterable[tuple[TopicT, int]]
) -> tuple[dict[int, dict[tuple[TopicT, int], int]], dict[tuple[TopicT, int], int]]:
    """Group partitions by leader, with their epochs, and return error codes of partitions without one."""
    known = {(name, p.partition): p for name, topic in metadata.topics.items() for p in topic.partitions}
    leaders: dict[int, dict[tuple[TopicT, int], int]] = defaultdict(dict)
    without: dict[tuple[TopicT, int], int] = {}
    for key in wanted:
        partition = known.get(key)
        if partition is None:
            topic = metadata.topics.get(key[0])
            code = codes.NONE if topic is None else topic.error_code
            without[key] = code or codes.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.leader not in metadata.brokers:
            without[key] = codes.LEADER_NOT_AVAILABLE
        else:
            leaders[partition.leader][key] = partition.leader_epoch
    return leaders, without
