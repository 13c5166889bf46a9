"""Commits for groups without members, as a compare-and-set: a real consumer's commit is never overwritten.

OffsetCommit looks at members only: a consumer may come, commit and go between the look and the commit, and lose its
commit (KAFKA-19794). So the commit is made in a transaction:

     1. TxnOffsetCommit    the commit has its place in `__consumer_offsets` now, but does not count yet
     2. OffsetFetch, DescribeGroups    is the position still the one the decision was made on, and is the group empty?
     3. EndTxn    commit if so, abort if not

A consumer's commit before 1 is seen in 2. Its commit after 1 stands later in the log, and when a transaction ends a
coordinator keeps the later record (`recordOffset` in OffsetMetadataManager, `olderThan` in the coordinators before
Kafka 4.0). A consumer that joins meanwhile waits until the transaction has ended, as it asks for stable offsets
(KIP-447). A commit that was pending in a transaction of its own before 1 would be seen neither way, so positions are
read as stable ones before 1, and the log is checked for transactions that have been open since before 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer.group import OffsetCommitRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.coordinators import Answer, ask_coordinators
from isthmus.kafka.groups.groups import Positions
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.group import NO_LEADER_EPOCH, Committed
from isthmus.model.kafka.rights import Right, on_group, on_topic
from isthmus.model.naming import TargetTopic, TargetTopicPartition
from isthmus.model.trees.positions import add_flags, split_flags

TIMEOUT_MS: Final = 10_000
"""How long a transaction may stay open when its controller dies: so long consumers of its groups would wait."""
_WITHOUT_KIP_890: Final = 4
_ADD_VERSION_MAX: Final = 3
_NO_GENERATION: Final = -1
_OFFSET_COMMIT_BY_NAME: Final = 9
PATIENCE_S: Final = 1.0
_ANSWER_S: Final = 10.0

GroupPositions = Mapping[str, Positions[TargetTopic]]
"""The positions to commit, by group."""


_OF_ONE_PARTITION: Final = frozenset(
    {
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.OFFSET_METADATA_TOO_LARGE,
        codes.INVALID_COMMIT_OFFSET_SIZE,
        codes.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Answers about one partition of a group, which mean nothing for its others."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The positions of a group that a coordinator accepted: all but those that were `refused`. Those that are `bare`
    were accepted without the metadata of their consumer, as that was too long for its brokers.
    """

    bare: frozenset[TargetTopicPartition] = frozenset()
    refused: Mapping[TargetTopicPartition, ClusterError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """The commits that have their place in the log of commits, by group.

    `refused` are groups that were kept out of the transaction, `doubtful` those that may have a commit in it.
    """

    groups: Mapping[str, Accepted] = field(default_factory=dict)
    refused: Mapping[str, ClusterError] = field(default_factory=dict)
    doubtful: Mapping[str, ClusterError] = field(default_factory=dict)


class GroupTransaction(Transaction):
    """The transactions of one link's groups, one after the other. `initialize` before the first."""

    def __init__(self, client: Client, link: str) -> None:
        super().__init__(client, groups_transactional_id(link), timeout_ms=TIMEOUT_MS)

    async def place(self, commits: GroupPositions) -> Placed:
        """Give all commits their place (step 1).

        :raises ClusterError: The transaction itself cannot be begun.
        """
        refused = await self._admit(list(commits))
        admitted = {group: commits[group] for group in commits if group not in refused}
        outcome = await commit_at_coordinators(self._client, admitted, self._txn_offset_commit)
        return Placed(outcome.values, refused, outcome.errors)

    async def _admit(self, groups: Sequence[str]) -> dict[str, ClusterError]:
        """Make the partitions of `__consumer_offsets` part of the transaction; return the groups that are refused."""
        # The first waits until the transaction before has ended. The others follow without waiting in between, as a
        # broker works on one request of a connection at a time.
        first, rest = groups[:1], groups[1:]
        answers = [
            *await asyncio.gather(*map(self._add, first), return_exceptions=True),
            *await asyncio.gather(*map(self._add, rest), return_exceptions=True),
        ]
        refused: dict[str, ClusterError] = {}
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, NotAuthorized):
                refused[group] = answer
            elif isinstance(answer, BaseException):
                raise answer
        self.is_open = self.is_open or len(refused) < len(groups)
        return refused

    async def _add(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
            max_version=_ADD_VERSION_MAX,
        )
        await self._ask(
            request, lambda answer: answer.error_code, f"adding group {group} to a transaction", on_group("READ", group)
        )

    def _txn_offset_commit(self, group: str, positions: Positions[TargetTopic]) -> TxnOffsetCommitRequest:
        topic_class: Any = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=_NO_GENERATION,
            member_id="",
            group_instance_id=None,
            topics=_topics(positions, topic_class, topic_class.TxnOffsetCommitRequestPartition),
            max_version=_WITHOUT_KIP_890,
        )

    async def clear(self, groups: Sequence[str]) -> None:
        """End pending commits of this producer for groups, by an empty, aborted transaction over the same partitions.

        A commit that a network delivers long after its transaction waits for an end that never comes, where brokers do
        not verify transactions (KIP-890), and hides the group's positions from clients that read stable ones. The
        control records of a later transaction of the same producer end it.

        :raises ClusterError: The transaction cannot be begun or ended.
        """
        await self._admit(groups)
        if self.is_open:
            await self.end(commit=False)

    @staticmethod
    def is_lost(error: ClusterError) -> bool:
        """Whether another producer has the transactional id now, or its transaction timed out: `initialize` it then."""
        return getattr(error, "code", codes.NONE) in _LOST


_LOST: Final = codes.PRODUCER_MOVED | {codes.INVALID_TXN_STATE}


def groups_transactional_id(link: str) -> str:
    """Return the transactional id with which a link commits positions."""
    return f"isthmus.{link}.groups"


async def commit_outside(client: Client, commits: GroupPositions) -> Outcomes[str, Accepted]:
    """Commit without a transaction: a group that has members is refused, but one that had some meanwhile is not."""
    return await commit_at_coordinators(client, commits, _offset_commit)


def _offset_commit(group: str, positions: Positions[TargetTopic]) -> OffsetCommitRequest:
    topic_class: Any = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        topics=_topics(positions, topic_class, topic_class.OffsetCommitRequestPartition),
        min_version=2,
        max_version=_OFFSET_COMMIT_BY_NAME,
    )


def _topics(positions: Positions[TargetTopic], topic_class: Any, partition_class: Any) -> list[Any]:
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), committed in positions.items():
        by_topic.setdefault(topic, []).append(
            partition_class(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=NO_LEADER_EPOCH,
                committed_metadata=committed.metadata,
            )
        )
    return [topic_class(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]


async def commit_at_coordinators(
    client: Client, commits: GroupPositions, request_for: Callable[[str, Positions[TargetTopic]], Any]
) -> Outcomes[str, Accepted]:
    """Send each group's commit to its coordinator; `request_for(group, positions)` builds it. Metadata that is too long
    for the brokers is left out: the position is what matters.
    """

    def rights(group: str) -> tuple[Right, Right]:
        return on_group("READ", group), on_topic("READ", *sorted({topic for topic, _ in commits[group]}))

    async def send(node: int, group: str, positions: Positions[TargetTopic]) -> dict[TargetTopicPartition, int]:
        answer = await client.broker(node, request_for(group, positions), timeout_s=_ANSWER_S)
        return {(each.name, p.partition_index): p.error_code for each in answer.topics for p in each.partitions}

    async def ask_one(node: int, group: str) -> Answer[Accepted]:
        codes_of = await send(node, group, commits[group])
        too_long = [key for key, code in codes_of.items() if code == codes.OFFSET_METADATA_TOO_LARGE]
        if too_long:
            codes_of |= await send(node, group, {key: without_metadata(commits[group][key]) for key in too_long})
        return _summarize(codes_of, too_long, lambda key, code: _refusal(client, group, key, code))

    async def ask(node: int, groups: Sequence[str]) -> Mapping[str, Answer[Accepted]]:
        return dict(zip(groups, await asyncio.gather(*(ask_one(node, group) for group in groups)), strict=True))

    return await ask_coordinators(client, commits, ask, "committing for group", rights, patience_s=PATIENCE_S)


def without_metadata(committed: Committed) -> Committed:
    """Return a position without the metadata of its consumer; the copy flags of a tree stay."""
    _, flags = split_flags(committed.metadata)
    return committed._replace(metadata=add_flags("", flags) if flags else "")


def _summarize(
    answers: Mapping[TargetTopicPartition, int],
    bare: Sequence[TargetTopicPartition],
    refusal: Callable[[TargetTopicPartition, int], ClusterError],
) -> Answer[Accepted]:
    """Summarize the answers about its partitions for a group: the first that is about all of it, or about each."""
    refused = {key: code for key, code in answers.items() if code in _OF_ONE_PARTITION}
    whole = next((code for code in answers.values() if code and code not in _OF_ONE_PARTITION), codes.NONE)
    if whole or (refused and len(refused) == len(answers)):
        return Answer(whole or next(iter(refused.values())))
    accepted = Accepted(frozenset(bare) - refused.keys(), {key: refusal(key, code) for key, code in refused.items()})
    return Answer(codes.NONE, accepted)


def _refusal(client: Client, group: str, key: TargetTopicPartition, code: int) -> ClusterError:
    topic, partition = key
    what = f"committing a position in {topic}-{partition} for group {group}"
    return codes.error_for(code, what, on_group("READ", group), on_topic("READ", topic), cluster=client.cluster.alias)
