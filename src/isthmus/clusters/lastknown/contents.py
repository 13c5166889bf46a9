"""Read the contents of the namespaces of links at a cluster, for other clusters to remember."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.kafka.admin.access import describe_rules
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.metadata import Metadata, TopicMetadata
from isthmus.memory.links import now_ms
from isthmus.model.kafka.access import Rule
from isthmus.model.kafka.group import GroupListing
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import Resource
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.link import Link
from isthmus.model.links.lastknown import KnownGroup, KnownLog, KnownNames, KnownRule, KnownSetting, KnownTopic, Untold
from isthmus.model.naming import SourceTopic, TargetTopic

PARTITIONS_MAX: Final = 5_000
OTHERS_MAX: Final = 1_000
"""The maximum of groups, and of rules, for each link: a memory is one record of the ledger."""
_RANGES_S: Final = 2.0
_AnswerT = TypeVar("_AnswerT")


@dataclass(frozen=True, slots=True)
class NamesOfLink:
    """Selects the names of a cluster that belong to a link, of which it is the source or the target."""

    link: Link
    is_source: bool

    def has_topic(self, name: str) -> bool:
        """Whether a topic is in the namespaces of the link, or would be if it existed."""
        topics = self.link.topics
        found = topics.target_of(SourceTopic(name)) if self.is_source else topics.source_of(TargetTopic(name))
        return found is not None

    def has_group(self, name: str) -> bool:
        """Whether a group is in the namespaces of the link, or would be if it existed."""
        groups = self.link.groups
        source = name if self.is_source else groups.naming.to_source(name)
        return groups.is_configured and source is not None and groups.matches(source)

    def concerns(self, rule: Rule, topics: Iterable[str], groups: Iterable[str]) -> bool:
        """Whether a rule covers names in the namespaces of the link."""
        if rule.resource is Resource.TOPIC:
            return self.has_topic(rule.name) or any(map(rule.covers, topics))
        return self.has_group(rule.name) or any(map(rule.covers, groups))


async def contents(client: Client, metadata: Metadata, links: Sequence[NamesOfLink]) -> list[KnownNames]:
    """Read the current contents of the namespaces of these links. Parts that cannot be read are `Untold`, with the
    reason.
    """
    # The ends of logs are at least as new as this time.
    seen_ms = now_ms()
    topics = {each.link.name: _topics(each, metadata) for each in links}
    wanted = {topic.name: topic for chosen, _ in topics.values() for topic in chosen}
    keys = [(topic.name, each.partition) for topic in wanted.values() for each in topic.partitions]
    logs, described, groups, of_topics, of_groups = await asyncio.gather(
        _try_read(log_ranges(client, keys, timeout_s=_RANGES_S)),
        _try_read(describe_topics(client, wanted.values())),
        _try_read(list_groups(client)),
        _try_read(describe_rules(client, Resource.TOPIC)),
        _try_read(describe_rules(client, Resource.GROUP)),
    )
    untold = [
        Untold(what, _why(answer))
        for what, answer in (
            ("ends", logs),
            ("configs", described),
            ("groups", groups),
            ("rules of topics", of_topics),
            ("rules of groups", of_groups),
        )
        if isinstance(answer, ClusterError)
    ]
    rules = [*_or_none(of_topics, frozenset[Rule]()), *_or_none(of_groups, frozenset[Rule]())]
    seen = _Seen(
        ranges={} if isinstance(logs, ClusterError) else logs.values,
        descriptions={} if isinstance(described, ClusterError) else described.values,
        groups={} if isinstance(groups, ClusterError) else merge_listings(groups),
        rules=sorted(rules, key=lambda rule: (rule.resource, rule.name, rule.digest)),
        at_ms=seen_ms,
    )
    cluster_id, alias = metadata.cluster_id or "", client.cluster.alias
    return [_names(each, cluster_id, alias, topics[each.link.name], seen, untold) for each in links]


@dataclass(frozen=True, slots=True)
class _Seen:
    ranges: Mapping[PartitionKey, LogRange]
    descriptions: Mapping[str, TopicDescription]
    groups: Mapping[str, GroupListing]
    rules: Sequence[Rule]
    at_ms: int


def _topics(names: NamesOfLink, metadata: Metadata) -> tuple[list[TopicMetadata], int]:
    """Choose the topics of the link to remember; also return how many are left out."""
    chosen: list[TopicMetadata] = []
    found = [metadata.topics[name] for name in sorted(metadata.topics) if names.has_topic(name)]
    room = PARTITIONS_MAX
    for topic in found:
        room -= len(topic.partitions)
        if room < 0:
            break
        chosen.append(topic)
    return chosen, len(found) - len(chosen)


def _names(
    names: NamesOfLink,
    cluster_id: str,
    alias: str,
    topics: tuple[list[TopicMetadata], int],
    seen: _Seen,
    untold: Sequence[Untold],
) -> KnownNames:
    chosen, left_out = topics
    groups = [name for name in seen.groups if names.has_group(name)]
    rules = [rule for rule in seen.rules if names.concerns(rule, (topic.name for topic in chosen), groups)]
    left_out += max(len(groups) - OTHERS_MAX, 0) + max(len(rules) - OTHERS_MAX, 0)
    return KnownNames(
        cluster_id=cluster_id,
        alias=alias,
        link=names.link.name,
        seen_ms=seen.at_ms,
        topics=tuple(_topic(topic, seen) for topic in chosen),
        groups=tuple(
            KnownGroup(name, str(seen.groups[name].type), str(seen.groups[name].state)) for name in groups[:OTHERS_MAX]
        ),
        rules=tuple(KnownRule.of(rule) for rule in rules[:OTHERS_MAX]),
        left_out=left_out,
        untold=tuple(untold),
    )


def _topic(topic: TopicMetadata, seen: _Seen) -> KnownTopic:
    description = seen.descriptions.get(topic.name)
    own = {} if description is None else description.own_configs
    logs = {each.partition: seen.ranges.get((topic.name, each.partition)) for each in topic.partitions}
    return KnownTopic(
        name=topic.name,
        replicas=max((len(each.replicas) for each in topic.partitions), default=0),
        logs=tuple(
            KnownLog(partition, -1, -1) if log is None else KnownLog(partition, log.start, log.end)
            for partition, log in sorted(logs.items())
        ),
        settings=tuple(KnownSetting(name, value) for name, value in sorted(own.items())),
    )


def _why(error: ClusterError) -> str:
    """Return why a part could not be read. Errors of connections are not given, as they name addresses."""
    is_told = isinstance(error, NotAuthorized | UnsupportedByBroker | BrokerRefused)
    return str(error) if is_told else "it could not be reached"


async def _try_read(asked: Awaitable[_AnswerT]) -> _AnswerT | ClusterError:
    try:
        return await asked
    except ClusterError as error:
        return error


def _or_none(answer: _AnswerT | ClusterError, nothing: _AnswerT) -> _AnswerT:
    return nothing if isinstance(answer, ClusterError) else answer
