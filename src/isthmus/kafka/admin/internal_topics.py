"""The internal topics that loops write into: one partition, compacted, as MirrorMaker 2 creates them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from isthmus.kafka import codes
from isthmus.kafka.admin.changes import NewTopic, create_topics, is_there_already
from isthmus.kafka.admin.configs import describe_topic_configs
from isthmus.kafka.client import Client
from isthmus.model.kafka.rights import on_topic
from isthmus.model.loop import Change
from isthmus.model.problem import Problem, problem_of
from isthmus.model.text.wording import format_count

_REPLICAS_MAX: Final = 3
"""MirrorMaker 2 creates three replicas, and fails where there are fewer brokers."""
_POLICY: Final = "cleanup.policy"
_COMPACTED: Final = "compact"
_MADE: Final = "1, compacted"
_AGAIN_S: Final = 30.0

ClusterTopic = tuple[str, str]
"""The alias of a cluster, and a topic of it."""


class InternalTopics:
    """The internal topics of one loop: checked and created. A topic that was found sound is not checked for a while."""

    def __init__(self, loop: str) -> None:
        self._loop = loop
        self._sound_until: dict[ClusterTopic, float] = {}
        self._ids: dict[ClusterTopic, uuid.UUID] = {}

    def topic_id(self, client: Client, name: str) -> uuid.UUID | None:
        """Return the id that a topic had at the last look; `None` if there was no topic."""
        return self._ids.get((client.cluster.alias, name))

    def doubt(self) -> None:
        """Check all topics again at the next look, as something went wrong."""
        self._sound_until.clear()

    async def look(self, client: Client, name: str) -> tuple[Change, ...]:
        """Return the changes that a topic needs.

        :raises ClusterError: The cluster does not answer, or we may not see the topic.
        """
        place = (client.cluster.alias, name)
        if time.monotonic() < self._sound_until.get(place, 0.0):
            return ()
        topic = (await client.metadata([name])).topics[name]
        if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._ids.pop(place, None)
            return (self._change(place, "partitions", None, _MADE),)
        if topic.error_code != codes.LEADER_NOT_AVAILABLE:
            right = on_topic("DESCRIBE", name)
            codes.raise_for_code(topic.error_code, f"finding topic {name}", right, cluster=client.cluster.alias)
        self._ids[place] = topic.topic_id
        found = [self._policy(place, policy) for policy in await _read_policies(client, name)]
        if len(topic.partitions) > 1:
            found.append(self._partitions(place, len(topic.partitions)))
        changes = tuple(change for change in found if change is not None)
        if not changes:
            self._sound_until[place] = time.monotonic() + _AGAIN_S
        return changes

    async def create(self, client: Client, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Make the changes that can be made; return the others, each with its problem."""
        left: list[Change] = []
        brokers: int | None = None
        for change in changes:
            if change.problem is not None or change.before is not None:
                left.append(change)
                continue
            brokers = len((await client.metadata()).brokers) if brokers is None else brokers
            name = _name_in(change)
            topic = NewTopic(
                name=name,
                partition_count=1,
                replication_factor=min(_REPLICAS_MAX, max(brokers, 1)),
                configs={_POLICY: _COMPACTED},
            )
            error = (await create_topics(client, [topic])).errors.get(name)
            if error is not None and not is_there_already(error):
                left.append(replace(change, problem=problem_of(error)))
        return tuple(left)

    def _policy(self, place: ClusterTopic, policy: str) -> Change | None:
        if _COMPACTED in policy.split(","):
            return None
        problem = Problem(
            f"topic {place[1]} of {place[0]} has {_POLICY}={policy}: records are deleted by their age, and later "
            "readers do not find them",
            f"Set {_POLICY}={_COMPACTED} on it (kafka-configs --alter), or delete it: Isthmus creates it again.",
        )
        return self._change(place, _POLICY, policy, _COMPACTED, problem)

    def _partitions(self, place: ClusterTopic, count: int) -> Change:
        problem = Problem(
            f"topic {place[1]} of {place[0]} has {format_count(count, 'partition')}: tools read the first one, which "
            "is written",
            "Nothing is lost by it. To have it with one partition, delete it: Isthmus creates it again.",
        )
        return self._change(place, "partitions", str(count), _MADE, problem)

    def _change(
        self, place: ClusterTopic, setting: str, before: str | None, after: str, problem: Problem | None = None
    ) -> Change:
        alias, name = place
        return Change(
            loop=self._loop,
            subject=f"topic {name} of {alias}",
            setting=setting,
            before=before,
            after=after,
            problem=problem,
        )


def is_missing(name: str, left: Sequence[Change]) -> bool:
    """Whether a topic does not exist, by the changes that were not made."""
    return any(change.before is None and _name_in(change) == name for change in left)


def _name_in(change: Change) -> str:
    return change.subject.removeprefix("topic ").split(" of ")[0]


async def _read_policies(client: Client, name: str) -> list[str]:
    """Read the cleanup policy of a topic; empty without the right to see it."""
    configs = (await describe_topic_configs(client, [name], only=[_POLICY])).values.get(name, {})
    return [entry.value for entry in configs.values() if entry.value is not None]
