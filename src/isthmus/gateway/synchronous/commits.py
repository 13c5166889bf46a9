"""Ask the source which partitions and groups a transaction has before its commit: its writes are not remembered here.

They may have passed another connection, process or gateway, and a client that retries a held commit may come from
there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsRequest

from isthmus.errors import ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.gateway.frames.committing import CommitAsked, CommitOwed, GroupSeen, Span, TransactionSeen, commit_refused
from isthmus.gateway.frames.duties import Duties, Duty, SyncLink, carriers
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, list_groups, merge_listings
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.producers import active_producers
from isthmus.model.kafka.group import offsets_partition
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_transactional_id
from isthmus.model.naming import SourceTopic, SourceTopicPartition

_log = logging.getLogger(__name__)
_ANSWER_S: Final = 8.0
_RETRY_S: Final = 0.1
_AGAIN_S: Final = 0.005
_SEEN_MAX: Final = 10_000
_ANY: Final = -1
_DECIDED: Final = "PrepareCommit"
_ONGOING: Final = "Ongoing"
"""The only state in which a coordinator names all partitions: once decided it omits those that have their end."""


class CommitLooks:
    """Looks at transactions before they are committed. `source` is the client of their cluster."""

    def __init__(self, duties: Duties, source: Client) -> None:
        self._duties = duties
        self._source = source
        self._seen: OrderedDict[str, set[str]] = OrderedDict()

    def note(self, seen: GroupSeen) -> None:
        """Remember that a transaction commits positions of this group; that only saves looking at all groups."""
        self._seen.setdefault(seen.transactional_id, set()).add(seen.group)
        self._seen.move_to_end(seen.transactional_id)
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)

    async def look(self, asked: CommitAsked) -> CommitOwed | bytes:
        """Find out what a commit has to wait for once it was forwarded, or build our answer if it must not be."""
        return await self._look_in_time(asked, self._look(asked))

    async def look_again(self, owed: CommitOwed) -> CommitOwed | bytes:
        """Look again at a commit that has waited. Its client may have given it up, been answered through another
        gateway, and be in its next transaction, which this request would commit too early.
        """
        return await self._look_in_time(owed.asked, self._look_again(owed))

    async def _look_in_time(self, asked: CommitAsked, looking: Awaitable[CommitOwed | bytes]) -> CommitOwed | bytes:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await looking
        except TimeoutError:
            why: object = f"the coordinator did not answer within {_ANSWER_S:g} s"
        except ClusterError as error:
            why = error
        _log.warning("the writes of a transaction of %s are not known, so it is not committed: %s",
                     asked.transactional_id, why)  # fmt: skip
        return commit_refused(asked, codes.COORDINATOR_NOT_AVAILABLE)

    async def _look(self, asked: CommitAsked) -> CommitOwed | bytes:
        try:
            state = await self._describe(asked.transactional_id, asked.node)
        except (NotAuthorized, UnsupportedByBroker) as error:
            if any(link.duty(is_transactional=False) is Duty.REFUSE for link in self._duties.links):
                # The transaction may be in that link, and would never be answered.
                return commit_refused(asked)
            _log.warning("%s: its commit waits for all that the source has now", error)
            return CommitOwed(asked, is_all=True)
        if state is None:
            return CommitOwed(asked)
        seen = _read_transaction(state)
        if not seen.is_open:
            groups = frozenset(self._seen.get(asked.transactional_id, ()))
            return CommitOwed(asked, groups=groups, is_all=True, seen=seen, untouched=await self._find_untouched(asked))
        keys = {(SourceTopic(topic.topic), partition) for topic in state.topics for partition in topic.partitions}
        groups = await self._groups(asked.transactional_id, {part for topic, part in keys if topic == OFFSETS_TOPIC})
        owed = {key: link for key in keys if (link := self._duties.of(key[0])) is not None}
        links = [*owed.values(), *carriers(self._duties, groups)]
        if any(link.duty(is_transactional=True) is Duty.REFUSE for link in links):
            return commit_refused(asked)
        spans = {key: Span(log.stable_end, log.end) for key, log in (await self._logs(owed)).items()}
        return CommitOwed(asked, spans, groups, seen=seen)

    async def _find_untouched(self, asked: CommitAsked) -> Collection[SyncLink]:
        """Find the lost links that have nothing of a decided transaction: neither a leader of their topics nor one of
        the offsets topic has its producer.
        """
        lost = [link for link in self._duties.links if link.is_lost]
        if not lost or asked.producer_id < 0:
            return ()
        topics = (await self._source.metadata(None)).topics
        names = [name for name in map(SourceTopic, topics) if any(link.target_topic(name) is not None for link in lost)]
        if OFFSETS_TOPIC not in topics:
            return ()
        leaders = {
            (name, part.partition): part.leader
            for name in (*names, SourceTopic(OFFSETS_TOPIC))
            for part in topics[name].partitions
        }
        found = await active_producers(self._source, leaders)
        for error in found.errors.values():
            _log.warning("the producers that wrote to the topics that failed over are not known: %s", error)
            return ()
        own = {key[0] for key, each in found.values.items() if asked.producer_id in {one.producer_id for one in each}}
        if OFFSETS_TOPIC in own:
            return ()
        return [link for link in lost if all(link.target_topic(name) is None for name in own)]

    async def _look_again(self, owed: CommitOwed) -> CommitOwed | bytes:
        if owed.seen is None:
            return owed
        state = await self._describe(owed.asked.transactional_id, owed.asked.node)
        if state is not None and _read_transaction(state) == owed.seen:
            return owed
        _log.warning("a transaction of %s has ended elsewhere, or another one has begun: a commit that waited here is "
                     "not forwarded", owed.asked.transactional_id)  # fmt: skip
        return commit_refused(owed.asked, codes.COORDINATOR_LOAD_IN_PROGRESS)

    async def wait_for_end(
        self, owed: CommitOwed, keys: Collection[SourceTopicPartition]
    ) -> Mapping[SourceTopicPartition, int]:
        """Wait until a decided commit has its end in these partitions; return their log ends, which are behind it.

        :raises ClusterError: The source does not answer.
        """
        try:
            await self.wait_until_complete(owed)
        except (NotAuthorized, UnsupportedByBroker):
            await self._wait_for_open(keys)
        return {key: log.end for key, log in (await self._logs(keys)).items()}

    async def _wait_for_open(self, keys: Collection[SourceTopicPartition]) -> None:
        """Wait until all transactions that are open now have ended."""
        before = {key: log.end for key, log in (await self._logs(keys)).items()}
        while any(log.stable_end < before[key] for key, log in (await self._logs(before)).items()):
            await asyncio.sleep(_RETRY_S)

    async def wait_until_complete(self, owed: CommitOwed) -> None:
        """Wait until a decided commit has its end everywhere. Until then a group coordinator does not report a position
        that is the first one in its partition, not even as an unstable one.

        :raises ClusterError: The coordinator does not answer.
        """
        name = owed.asked.transactional_id
        while True:
            state = await self._describe(name)
            if state is not None and owed.seen is not None and not owed.seen.is_decided_by(_read_transaction(state)):
                # That broker is no longer the coordinator, and does not know it.
                self._source.forget_coordinator("transaction", name)
                await asyncio.sleep(_RETRY_S)
                continue
            if state is None or state.transaction_state != _DECIDED:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _describe(self, transactional_id: str, node: int = _ANY) -> Any:
        """Describe a transaction at its coordinator; `None` if the transactional id is unknown. If a commit goes to a
        certain broker (`node`) that one is asked: it decides nothing if it is cut off.

        :raises ClusterError: It does not answer, or is not the coordinator.
        """
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        passing = codes.COORDINATOR_MOVED if node == _ANY else {codes.COORDINATOR_LOAD_IN_PROGRESS}
        while True:
            if node == _ANY:
                answer = await self._source.coordinator("transaction", transactional_id, request)
            else:
                answer = await self._source.broker(node, request)
            (state,) = answer.transaction_states
            if state.error_code == codes.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            if state.error_code not in passing:
                right = on_transactional_id("DESCRIBE", transactional_id)
                what = f"describing the transaction of {transactional_id}"
                codes.raise_for_code(state.error_code, what, right, cluster=self._source.cluster.alias)
                return state
            self._source.forget_coordinator("transaction", transactional_id)
            await asyncio.sleep(_RETRY_S)

    async def _groups(self, transactional_id: str, partitions: Collection[int]) -> frozenset[str]:
        """Find the groups whose positions a transaction commits, by its partitions of the offsets topic. Groups seen
        here may not be all: for a partition without a known group, all groups in it count.
        """
        if not partitions:
            return frozenset()
        topic = (await self._source.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else 0
        seen = self._seen.get(transactional_id, ())
        found = {group for group in seen if not count or offsets_partition(group, count) in partitions}
        unknown = set(partitions) - {offsets_partition(group, count) for group in found if count}
        if unknown:
            everywhere = await self._list_groups()
            found |= {each for each in everywhere if not count or offsets_partition(each, count) in unknown}
        return frozenset(found)

    async def _logs(self, keys: Collection[SourceTopicPartition]) -> Mapping[SourceTopicPartition, LogRange]:
        """Read the log ranges of partitions of the source.

        :raises ClusterError: One of them cannot be read.
        """
        if not keys:
            return {}
        found = await log_ranges(self._source, keys)
        for error in found.errors.values():
            raise error
        return found.values

    async def all_partitions(self, link: SyncLink) -> Collection[SourceTopicPartition]:
        """List all partitions of the source that a link copies.

        :raises ClusterError: The source does not answer.
        """
        topics = (await self._source.metadata(sorted(link.topics))).topics
        return [(SourceTopic(name), part.partition) for name, each in topics.items() for part in each.partitions]

    async def all_groups(self, link: SyncLink) -> frozenset[str]:
        """List all groups whose positions a link carries, except for parted ones: their positions never become equal.

        :raises ClusterError: The source does not answer.
        """
        parted = link.parted_groups
        return frozenset(each for each in await self._list_groups() if link.target_group(each) and each not in parted)

    async def _list_groups(self) -> Collection[str]:
        found = await list_groups(self._source)
        for error in found.errors.values():
            raise error
        return merge_listings(found)


def _read_transaction(state: Any) -> TransactionSeen:
    return TransactionSeen(
        state.producer_id,
        state.producer_epoch,
        state.transaction_start_time_ms,
        is_open=state.transaction_state == _ONGOING,
    )
