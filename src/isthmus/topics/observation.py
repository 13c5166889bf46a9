"""Observation of both clusters of a link at one moment, read into values; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from isthmus.engine.outlook import USUAL_DOUBT, Doubt, state_of
from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import ClusterDescription, Operation, describe_cluster
from isthmus.kafka.admin.changes import NewTopic, await_leaders, create_topics, is_about_settings, is_there_already
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.holes import count_holes
from isthmus.kafka.log.offsets import local_starts, log_ranges
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import Configs, TopicDescription
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic, TopicT
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem, problem_of
from isthmus.topics.aborted import Abilities, Treatment, treatment
from isthmus.topics.checks.functions import find_unloadable
from isthmus.topics.checks.letters import LetterTopic, find_letter_topics
from isthmus.topics.checks.safeguards import Safeguards, safeguards, transactional_topics
from isthmus.topics.checks.tiers import is_tiered
from isthmus.topics.checks.unmatched import missing, topic_names, unmatched_groups, unmatched_topics
from isthmus.topics.creation import own_settings, replicas
from isthmus.topics.names import FoundTopics, find_topics
from isthmus.topics.preflight import TopicPair, find_uncounted
from isthmus.topics.visibility import VisibilityInForce, visibility

_COUNTED_AT_ONCE: Final = 2
_RANGES_S: Final = 5.0
_HEARD_S: Final = 5.0
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLink:
    """Both sides of a link, topics by their names at the target.

    A topic of `names` is in `pairs` when it could be observed, in `names.refused` when it cannot have its name, and
    else in `problems`, with the lane state for that in `states`: SOURCE_UNAVAILABLE where it has none. `absent` are
    those that the source reports not to have.

    `defaults` is, for every topic the target lacks, the configuration its brokers would give it.
    `expiration_ms` is the target's `producer.id.expiration.ms`, `None` where reading it is not permitted. `aborted` is
    how aborted records are treated; if there is a risk in it, `transactional` are the topics recently written in
    transactions. `visibility` is how transactions become visible.
    `local_starts` are where logs of tiered topics of the source begin on its brokers' own disks, by partition.
    `unmatched` are the patterns that match nothing, if all topics were looked for. `letters` are the topics for dead
    letters of those that have any.
    """

    link: Link
    source_id: str
    target_id: str
    target_brokers: int
    names: NamedTopics = field(default_factory=NamedTopics)
    pairs: Mapping[TargetTopic, TopicPair] = field(default_factory=dict)
    defaults: Mapping[TargetTopic, Configs] = field(default_factory=dict)
    problems: Mapping[TargetTopic, Problem] = field(default_factory=dict)
    states: Mapping[TargetTopic, LaneState] = field(default_factory=dict)
    absent: frozenset[TargetTopic] = frozenset()
    expiration_ms: int | None = None
    aborted: Treatment | None = None
    visibility: VisibilityInForce | None = None
    transactional: frozenset[TargetTopic] = frozenset()
    local_starts: Mapping[TargetTopic, Mapping[int, int]] = field(default_factory=dict)
    unmatched: tuple[Problem, ...] = ()
    letters: Mapping[TargetTopic, LetterTopic] = field(default_factory=dict)


async def observe(link: Link, source: Client, target: Client, *, names: NamedTopics | None = None) -> ObservedLink:
    """Observe the topics a link selects, or only those given.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    source_cluster, target_cluster = await asyncio.gather(describe_cluster(source), describe_cluster(target))
    seen = ObservedLink(
        link=link,
        source_id=source_cluster.cluster_id,
        target_id=target_cluster.cluster_id,
        target_brokers=len(target_cluster.brokers),
    )
    if seen.source_id == seen.target_id:
        return seen
    if names is None:
        found = await find_topics(source, link.topics)
    else:
        found = FoundTopics(metadata=await source.metadata(sorted(names.sources.values())), names=names)
    view = await _Sides.look(link, source, target, found, brokers=seen.target_brokers)
    unloadable = await find_unloadable(link, found.names)
    view.problems.update({name: problem for name, problem in unloadable.items() if name not in view.problems})
    letters = await find_letter_topics(link, target, view.pairs(), brokers=seen.target_brokers)
    view.problems.update(letters.problems)
    pairs = await _with_ranges(source, target, view.pairs())
    taken = await safeguards(target)
    aborted = _treatment_of(link, target_cluster, taken)
    return replace(
        seen,
        names=found.names,
        pairs=await _with_holes(source, pairs, link, view.problems),
        defaults=view.defaults,
        problems=view.problems,
        states={**letters.states, **dict.fromkeys(unloadable, LaneState.REFUSED), **view.states},
        absent=view.absent,
        expiration_ms=taken.expiration_ms,
        aborted=aborted,
        visibility=_visibility_of(link, target_cluster, taken),
        local_starts=await _local_starts(source, pairs),
        transactional=await _transactional(source, found, pairs) if aborted.risk else frozenset(),
        unmatched=await _find_unmatched(link, source, found.metadata) if names is None else (),
        letters=letters.topics,
    )


async def seen_again(
    observed: ObservedLink,
    doubted: Callable[[ObservedLink], Collection[LaneKey]],
    source: Client,
    target: Client,
    doubt: Doubt = USUAL_DOUBT,
) -> ObservedLink:
    """Read the ranges of `doubted` partitions again, in as many looks as lanes take for that.

    A broker that was cut off from its cluster names itself as leader, and its log ends too early. Where a leader does
    not answer any more the range is unknown: the lane will learn it.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    for _ in range(doubt.looks - 1):
        keys = frozenset(doubted(observed))
        if not keys:
            break
        await asyncio.sleep(doubt.pause_s)
        before = {key.topic: observed.pairs[key.topic] for key in keys}
        looked = await _with_ranges(source, target, before)
        pairs = {name: _with_new_ranges(pair, looked[name], keys) for name, pair in before.items()}
        problems = dict(observed.problems)
        pairs = await _with_holes(source, pairs, observed.link, problems)
        kept = {name: pair for name, pair in observed.pairs.items() if name not in problems}
        observed = replace(observed, pairs={**kept, **pairs}, problems=problems)
    return observed


def _with_new_ranges(pair: TopicPair, looked: TopicPair, keys: Collection[LaneKey]) -> TopicPair:
    """Return a pair with the ranges of a later look, for these partitions alone."""

    def ranges(before: Mapping[int, LogRange], now: Mapping[int, LogRange]) -> dict[int, LogRange]:
        sound = {number: log for number, log in before.items() if LaneKey(pair.name, number) not in keys}
        return {**{number: now[number] for number in before.keys() & now.keys()}, **sound}

    return replace(
        pair,
        source_ranges=ranges(pair.source_ranges, looked.source_ranges),
        target_ranges=ranges(pair.target_ranges, looked.target_ranges),
    )


async def _local_starts(source: Client, pairs: Mapping[TargetTopic, TopicPair]) -> dict[TargetTopic, Mapping[int, int]]:
    """Read the local log starts of topics that a remote tier holds a part of."""
    tiered = {pair.source_name: pair.source for pair in pairs.values() if is_tiered(pair.source)}
    found = _by_topic(await local_starts(source, _partitions(tiered)) if tiered else {})
    return {name: found.get(pair.source_name, {}) for name, pair in pairs.items() if pair.source_name in tiered}


async def find_treatment(link: Link, target: Client) -> Treatment:
    """Return how aborted records of a link are treated.

    :raises ClusterError: The target did not answer.
    """
    described, taken = await asyncio.gather(describe_cluster(target), safeguards(target))
    return _treatment_of(link, described, taken)


def _treatment_of(link: Link, target: ClusterDescription, taken: Safeguards) -> Treatment:
    return treatment(link.transactions.aborted, _abilities(target, taken), link.target.alias)


def _abilities(target: ClusterDescription, taken: Safeguards) -> Abilities:
    return Abilities(
        writes_markers=Operation.ALTER in target.operations,
        verifies=taken.verifies_transactions,
        tells=taken.tells_producers,
    )


def _visibility_of(link: Link, target: ClusterDescription, taken: Safeguards) -> VisibilityInForce:
    wanted, abilities = link.transactions, _abilities(target, taken)
    is_decided = link.topics.offsets is OffsetPolicy.MAPPED or bool(link.level)
    return visibility(wanted.visibility, wanted.aborted, abilities, link.target.alias, is_decided=is_decided)


async def _transactional(source: Client, found: FoundTopics, names: Collection[TargetTopic]) -> frozenset[TargetTopic]:
    sources = found.names.sources
    written = await transactional_topics(source, found.metadata, [sources[name] for name in names])
    return frozenset(name for name in names if sources[name] in written)


async def _find_unmatched(link: Link, source: Client, found: Metadata) -> tuple[Problem, ...]:
    return (*await unmatched_topics(link, found, source), *await unmatched_groups(link, source))


@dataclass(slots=True)
class _Sides:
    """The descriptions of the same topics at both clusters, and the problems that exclude some of them."""

    source: Mapping[TargetTopic, TopicDescription]
    target: Mapping[TargetTopic, TopicDescription]
    defaults: Mapping[TargetTopic, Configs]
    problems: dict[TargetTopic, Problem]
    states: Mapping[TargetTopic, LaneState]
    absent: frozenset[TargetTopic]

    @classmethod
    async def look(
        cls,
        link: Link,
        source: Client,
        target: Client,
        found: FoundTopics,
        *,
        brokers: int,
        is_first: bool = True,
    ) -> _Sides:
        names = {name: own for name, own in found.names.sources.items() if name not in found.names.refused}
        at_target = await target.metadata(sorted(names)) if names else Metadata(None, -1, {}, {})
        new = _unknown(at_target)
        there = [topic for topic in at_target.topics.values() if topic.name not in new]
        described, targets = await asyncio.gather(
            describe_topics(source, [found.metadata.topics[own] for own in names.values()]),
            describe_topics(target, there),
        )
        sources = Outcomes(
            {name: described.values[own] for name, own in names.items() if own in described.values},
            {name: described.errors[own] for name, own in names.items() if own in described.errors},
        )
        imagined = await _validate_creation(
            link, target, {name: sources.values[TargetTopic(name)] for name in new if name in sources.values}, brokers
        )
        late = [name for name, error in imagined.errors.items() if is_there_already(error)]
        if late and is_first:
            # The controller has them, and the broker that was asked does not know them yet.
            await await_leaders(target, dict.fromkeys(late, 1), timeout_s=_HEARD_S)
            return await cls.look(link, source, target, found, brokers=brokers, is_first=False)
        at_sides = (
            (LaneState.TARGET_UNAVAILABLE, _by_target({**imagined.errors, **targets.errors})),
            (LaneState.SOURCE_UNAVAILABLE, sources.errors),
        )
        problems = {name: problem_of(error) for _, errors in at_sides for name, error in errors.items()}
        states = {name: state_of(error, side) for side, errors in at_sides for name, error in errors.items()}
        absent = set(_unknown(found.metadata))
        if absent.intersection(names.values()):
            known = await topic_names(source)
            problems.update((name, missing(own, link, known)) for name, own in names.items() if own in absent)
        gone = frozenset(name for name, own in names.items() if own in absent)
        return cls(sources.values, _by_target(targets.values), _by_target(imagined.values), problems, states, gone)

    def pairs(self) -> dict[TargetTopic, TopicPair]:
        """Return the topics that both sides describe."""
        return {
            name: TopicPair(name=name, source=description, target=self.target.get(name))
            for name, description in self.source.items()
            if name not in self.problems
        }


async def _validate_creation(
    link: Link, target: Client, new: Mapping[str, TopicDescription], brokers: int
) -> Outcomes[str, Configs]:
    """Validate the creation of topics: this shows the brokers' defaults, and whether creating them is permitted. Where
    a policy requires settings, ask again with those that the source has.
    """

    def request_for(name: str, configs: Mapping[str, str]) -> NewTopic:
        count = replicas(new[name], brokers=brokers, given=link.topics.replication_factor)
        partitions = new[name].partition_count
        return NewTopic(name=name, partition_count=partitions, replication_factor=count, configs=configs)

    found = await create_topics(target, [request_for(name, {}) for name in new], validate_only=True)
    missed = [name for name, error in found.errors.items() if is_about_settings(error)]
    again = await create_topics(
        target, [request_for(name, own_settings(new[name], link.configs)) for name in missed], validate_only=True
    )
    known = {**found.values, **again.values}
    errors = {name: error for name, error in {**found.errors, **again.errors}.items() if name not in known}
    return Outcomes(known, errors)


def _by_target(answers: Mapping[str, ValueT]) -> dict[TargetTopic, ValueT]:
    """Return answers of the target, by its own topic names."""
    return {TargetTopic(name): value for name, value in answers.items()}


def _unknown(metadata: Metadata) -> list[str]:
    """Return the topics that a cluster does not have."""
    return [topic.name for topic in metadata.topics.values() if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION]


async def _with_ranges(
    source: Client, target: Client, pairs: Mapping[TargetTopic, TopicPair]
) -> dict[TargetTopic, TopicPair]:
    """Return the pairs with the ranges of all partitions: the target's first, so that it is never ahead."""
    there = {name: pair.target for name, pair in pairs.items() if pair.target is not None}
    here = {pair.source_name: pair.source for pair in pairs.values()}
    by_target = _by_topic((await log_ranges(target, _partitions(there), timeout_s=_RANGES_S)).values)
    by_source = _by_topic((await log_ranges(source, _partitions(here), timeout_s=_RANGES_S)).values)
    return {
        name: replace(
            pair,
            source_ranges=by_source.get(pair.source_name, {}),
            target_ranges=by_target.get(name, {}),
        )
        for name, pair in pairs.items()
    }


def _partitions(topics: Mapping[TopicT, TopicDescription]) -> list[tuple[TopicT, int]]:
    return [(name, p) for name, topic in topics.items() for p in range(topic.partition_count)]


def _by_topic(ranges: Mapping[tuple[TopicT, int], ValueT]) -> dict[TopicT, dict[int, ValueT]]:
    topics: dict[TopicT, dict[int, ValueT]] = {}
    for (topic, partition), log in ranges.items():
        topics.setdefault(topic, {})[partition] = log
    return topics


async def _with_holes(
    source: Client, pairs: Mapping[TargetTopic, TopicPair], link: Link, problems: dict[TargetTopic, Problem]
) -> dict[TargetTopic, TopicPair]:
    """Return the pairs with holes counted where only counting shows whether there are too many."""
    if link.topics.offsets is OffsetPolicy.MAPPED:
        return dict(pairs)
    holes_max = link.compaction_holes_max
    room = asyncio.Semaphore(_COUNTED_AT_ONCE)

    async def count(name: SourceTopic, partition: int, begin: int, end: int) -> int:
        async with room:
            return await count_holes(source, (name, partition), begin, end, stop_above=holes_max)

    async def complete(name: TargetTopic, pair: TopicPair) -> tuple[TargetTopic, TopicPair]:
        stretches = find_uncounted(pair, holes_max=holes_max)
        try:
            counts = await asyncio.gather(
                *(count(pair.source_name, p, begin, end) for p, (begin, end) in stretches.items())
            )
        except ClusterError as error:
            problems[name] = problem_of(error)
            return name, pair
        return name, replace(pair, holes=dict(zip(stretches, counts, strict=True)))

    done = await asyncio.gather(*(complete(name, pair) for name, pair in pairs.items()))
    return {name: pair for name, pair in done if name not in problems}
