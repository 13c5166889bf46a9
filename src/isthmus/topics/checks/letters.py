"""The topics for dead letters at the target: whether they are there, can be created, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import AllowedOperations, Operation, topic_operations
from isthmus.kafka.admin.changes import NewTopic, create_topics, is_about_settings, is_there_already
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.rights import grant, on_topic
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.deadletters import dead_letters_of, letters_transaction_of
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.model.text.plain import Hidden, PlainValue
from isthmus.model.text.wording import format_count
from isthmus.topics.creation import letter_creations, replicas
from isthmus.topics.preflight import TopicPair, batch_bytes_max, is_compacted, stamps_append_time

_NEEDED: Final = (Operation.READ, Operation.WRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic(PlainValue):
    """The topic at the target for dead letters of a topic, and how many partitions it has, 0 if it is yet to be made.

    `creation` is how it is made then; `wanted` is how many partitions it has to have. `notes` are about its settings.
    """

    topic: str
    partitions: int
    wanted: Hidden[int]
    creation: Hidden[NewTopic | None] = None
    notes: Hidden[tuple[Problem, ...]] = ()

    @property
    def has_changes(self) -> bool:
        """Whether it has to be created or enlarged."""
        return self.creation is not None or self.partitions < self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLetters:
    """By topic at the target, its topic for dead letters, or why it cannot be used."""

    topics: Mapping[TargetTopic, LetterTopic] = field(default_factory=dict)
    problems: Mapping[TargetTopic, Problem] = field(default_factory=dict)

    @property
    def states(self) -> dict[TargetTopic, LaneState]:
        """The states of topics whose dead letters cannot be kept."""
        return {
            name: LaneState.NOT_AUTHORIZED if problem.code == NotAuthorized.error_code else LaneState.REFUSED
            for name, problem in self.problems.items()
        }


async def find_letter_topics(
    link: Link, target: Client, pairs: Mapping[TargetTopic, TopicPair], *, brokers: int
) -> FoundLetters:
    """Find the topics for dead letters of those of the link's topics whose transform has any. The target's brokers
    check the creation of missing ones; nothing is created. `brokers` is their number.

    :raises ClusterError: The target as a whole did not answer.
    """
    names = {
        name: dead_letters_of(link.name, name)
        for name, pair in pairs.items()
        if link.has_dead_letters(pair.source_name)
    }
    if not names:
        return FoundLetters()
    there = (await target.metadata(sorted(names.values()))).topics
    found = [each for each in there.values() if each.error_code == codes.NONE]
    # Those that may not be described are used unseen.
    described = (await describe_topics(target, found)).values
    missing = {name for name, own in names.items() if there[own].error_code == codes.UNKNOWN_TOPIC_OR_PARTITION}
    allowed = await topic_operations(target, [names[name] for name in names.keys() - missing])
    topics, problems = dict[TargetTopic, LetterTopic](), dict[TargetTopic, Problem]()
    for name, own in names.items():
        wanted = pairs[name].source.partition_count
        if name in missing:
            topics[name] = LetterTopic(topic=own, partitions=0, wanted=wanted)
        else:
            notes = tuple(find_flaws(described[own], pairs[name].source)) if own in described else ()
            topics[name] = LetterTopic(topic=own, partitions=len(there[own].partitions), wanted=wanted, notes=notes)
            lacking = find_lacking(there[own].error_code, allowed.get(own))
            if lacking:
                problems[name] = _denied(lacking, own, target.cluster.alias)
    for name in sorted(missing):
        source, known = pairs[name].source, pairs[name].target
        given = link.topics.replication_factor if known is None else known.replication_factor
        count = replicas(source, brokers=brokers, given=given)
        created = await _validate(target, letter_creations(source, names[name], replication_factor=count))
        if isinstance(created, ClusterError):
            by_hand = _create_by_hand(names[name], source) if is_about_settings(created) else ""
            problems[name] = _refused(created, by_hand)
        else:
            topics[name] = LetterTopic(
                topic=names[name], partitions=0, wanted=created.partition_count, creation=created
            )
    sound = sorted(names.keys() - problems.keys())
    if sound and (problem := await _probe(link, target, sound[0])) is not None:
        problems |= dict.fromkeys(sound, problem)
    return FoundLetters(topics=topics, problems=problems)


async def _validate(target: Client, creations: tuple[NewTopic, ...]) -> NewTopic | ClusterError:
    """Return the first of these that the target's brokers would create, or the last error. One that they cannot tell
    now counts as good: the creation will show it.
    """
    *others, last = creations
    for new in others:
        error = await _refusal(target, new)
        if not is_about_settings(error):
            return error or new
    return await _refusal(target, last) or last


async def _refusal(target: Client, new: NewTopic) -> ClusterError | None:
    error = (await create_topics(target, [new], validate_only=True, asks_configs=False)).errors.get(new.name)
    return None if error is None or is_there_already(error) or error.retryable else error


async def _probe(link: Link, target: Client, topic: TargetTopic) -> Problem | None:
    """Return why transactions that write dead letters are not allowed, or not possible now."""
    try:
        await Transaction(target, letters_transaction_of(link.name, topic, 0)).probe()
    except ClusterError as error:
        return refusal_of(error)
    return None


def refusal_of(error: ClusterError) -> Problem | None:
    """Return why dead letters cannot be kept; `None` for an error that passes: lanes wait by themselves."""
    return None if error.retryable else _refused(error)


def find_lacking(error_code: int, allowed: AllowedOperations | None) -> str:
    """Return the right on a topic that is missing, or "". A broker that does not know the topic yet tells no rights, so
    none is shown to be missing.
    """
    if allowed is None and error_code not in codes.AUTHORIZATION:
        return ""
    return next((each.name for each in _NEEDED if each not in (allowed or ())), "")


def find_flaws(letters: TopicDescription, source: TopicDescription) -> Iterator[Problem]:
    """Yield what settings of a topic for dead letters do to the letters."""
    name = letters.name
    if is_compacted(letters):
        yield Problem(
            f"topic {name} is compacted: it refuses dead letters without a key, and keeps one of each key",
            f"Set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on topic {name}.",
        )
    if stamps_append_time(letters):
        yield Problem(
            f"topic {name} has message.timestamp.type=LogAppendTime: dead letters lose the times of their records",
            f"Set message.timestamp.type=CreateTime on topic {name}.",
        )
    ours, theirs = batch_bytes_max(letters), batch_bytes_max(source)
    if ours < theirs:
        yield Problem(
            f"topic {name} takes batches of at most {ours} bytes, and the source {theirs}: a partition stops before a "
            "dead letter that is larger",
            f"Raise max.message.bytes of topic {name}.",
        )


def _create_by_hand(topic: str, source: TopicDescription) -> str:
    return (
        f"Its brokers refuse the settings of topic {topic}. Have their policy allow them, or create the topic by hand: "
        f"with {format_count(source.partition_count, 'partition')}, cleanup.policy=delete, a long retention, and "
        "max.message.bytes as at the source. It is used as it is."
    )


def _refused(error: ClusterError, hint: str = "") -> Problem:
    problem = problem_of(error)
    return Problem(f"dead letters cannot be kept (transform): {problem.message}", hint or problem.hint, problem.code)


def _denied(operation: str, topic: str, alias: str) -> Problem:
    return Problem(
        f"dead letters cannot be kept (transform): {operation} on topic {topic} is missing",
        grant(on_topic(operation, topic), alias),
        NotAuthorized.error_code,
    )
