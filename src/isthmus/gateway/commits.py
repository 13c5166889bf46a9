"""What a transaction that is to be committed is about, asked of the source: nothing is remembered of its writes.

Another connection, process or gateway may have had them, and a client that asks again, after its commit was held, may
come to us from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsRequest

from isthmus.cluster.groups import OFFSETS_TOPIC, list_groups, listed
from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.producers import active_producers
from isthmus.errors import ClusterError, NotAuthorized, UnsupportedByBroker
from isthmus.gateway.committing import CommitAsked, CommitOwed, GroupSeen, Span, TransactionSeen, commit_refused
from isthmus.gateway.duties import Duties, Duty, SyncLink, carriers
from isthmus.model.group import offsets_partition
from isthmus.model.log import LogRange
from isthmus.model.rights import on_transactional_id
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_log = logging.getLogger(__name__)
_ANSWER_S: Final = 8.0
_RETRY_S: Final = 0.1
_AGAIN_S: Final = 0.005
_SEEN_MAX: Final = 10_000
_ANY: Final = -1
_DECIDED: Final = "PrepareCommit"
_ONGOING: Final = "Ongoing"
"""The one state in which a coordinator names all partitions: once decided, those are left out that have their end."""


class CommitLooks:
    """Looks at transactions before they are committed. `source` is the client of their cluster."""

    def __init__(self, duties: Duties, source: Client) -> None:
        self._duties = duties
        self._source = source
        self._seen: OrderedDict[str, set[str]] = OrderedDict()

    def note(self, seen: GroupSeen) -> None:
        """A transaction is to commit positions of this group. That only spares looking at others."""
        self._seen.setdefault(seen.transactional_id, set()).add(seen.group)
        self._seen.move_to_end(seen.transactional_id)
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)

    async def look(self, asked: CommitAsked) -> CommitOwed | bytes:
        """What the commit is to wait for once it was forwarded, or the answer to it if it is not to be."""
        return await self._told(asked, self._look(asked))

    async def look_again(self, owed: CommitOwed) -> CommitOwed | bytes:
        """The same of a commit that has waited. Its client may have given it up, been answered through another gateway,
        and be in the next transaction, which the same request would commit in the middle.
        """
        return await self._told(owed.asked, self._look_again(owed))

    async def _told(self, asked: CommitAsked, looking: Awaitable[CommitOwed | bytes]) -> CommitOwed | bytes:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await looking
        except TimeoutError:
            why: object = f"the coordinator did not answer within {_ANSWER_S:g} s"
        except ClusterError as error:
            why = error
        _log.warning("what a transaction of %s wrote is not known, so it is not committed: %s",
                     asked.transactional_id, why)  # fmt: skip
        return commit_refused(asked, codes.COORDINATOR_NOT_AVAILABLE)

    async def _look(self, asked: CommitAsked) -> CommitOwed | bytes:
        try:
            state = await self._described(asked.transactional_id, asked.node)
        except (NotAuthorized, UnsupportedByBroker) as error:
            if any(link.duty(is_transactional=False) is Duty.REFUSE for link in self._duties.links):
                # It may be in there, and would never be answered.
                return commit_refused(asked)
            _log.warning("%s: its commit waits for all that the source has now", error)
            return CommitOwed(asked, is_all=True)
        if state is None:
            return CommitOwed(asked)
        seen = _seen(state)
        if not seen.is_open:
            groups = frozenset(self._seen.get(asked.transactional_id, ()))
            return CommitOwed(asked, groups=groups, is_all=True, seen=seen, untouched=await self._untouched(asked))
        keys = {(topic.topic, partition) for topic in state.topics for partition in topic.partitions}
        groups = await self._groups(asked.transactional_id, {part for topic, part in keys if topic == OFFSETS_TOPIC})
        owed = {key: link for key in keys if (link := self._duties.of(key[0])) is not None}
        links = [*owed.values(), *carriers(self._duties, groups)]
        if any(link.duty(is_transactional=True) is Duty.REFUSE for link in links):
            return commit_refused(asked)
        spans = {key: Span(log.stable_end, log.end) for key, log in (await self._logs(owed)).items()}
        return CommitOwed(asked, spans, groups, seen=seen)

    async def _untouched(self, asked: CommitAsked) -> Collection[SyncLink]:
        """What was failed over of links and has nothing of a transaction that is decided: no leader there, and none of
        positions, knows its producer.
        """
        lost = [link for link in self._duties.links if link.is_lost]
        if not lost or asked.producer_id < 0:
            return ()
        topics = (await self._source.metadata(None)).topics
        names = [name for name in topics if any(link.target_topic(name) is not None for link in lost)]
        if OFFSETS_TOPIC not in topics:
            return ()
        leaders = {
            (name, part.partition): part.leader for name in (*names, OFFSETS_TOPIC) for part in topics[name].partitions
        }
        found = await active_producers(self._source, leaders)
        for error in found.errors.values():
            _log.warning("who has written to what was failed over is not known: %s", error)
            return ()
        own = {key[0] for key, each in found.values.items() if asked.producer_id in {one.producer_id for one in each}}
        if OFFSETS_TOPIC in own:
            return ()
        return [link for link in lost if all(link.target_topic(name) is None for name in own)]

    async def _look_again(self, owed: CommitOwed) -> CommitOwed | bytes:
        if owed.seen is None:
            return owed
        state = await self._described(owed.asked.transactional_id, owed.asked.node)
        if state is not None and _seen(state) == owed.seen:
            return owed
        _log.warning("a transaction of %s has ended elsewhere, or another one has begun: a commit that waited here is "
                     "not forwarded", owed.asked.transactional_id)  # fmt: skip
        return commit_refused(owed.asked, codes.COORDINATOR_LOAD_IN_PROGRESS)

    async def ended(self, owed: CommitOwed, keys: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Wait until a commit that was decided has its end in these partitions; they end behind it.

        :raises ClusterError: The source does not tell.
        """
        try:
            await self.completed(owed)
        except (NotAuthorized, UnsupportedByBroker):
            await self._settled(keys)
        return {key: log.end for key, log in (await self._logs(keys)).items()}

    async def _settled(self, keys: Collection[PartitionKey]) -> None:
        """Wait until all transactions have ended that are open now."""
        before = {key: log.end for key, log in (await self._logs(keys)).items()}
        while any(log.stable_end < before[key] for key, log in (await self._logs(before)).items()):
            await asyncio.sleep(_RETRY_S)

    async def completed(self, owed: CommitOwed) -> None:
        """Wait until a commit that was decided has its end everywhere. Until then a group coordinator does not name a
        position that is the first one in its partition, not even as one that is not stable.

        :raises ClusterError: The coordinator does not tell.
        """
        name = owed.asked.transactional_id
        while True:
            state = await self._described(name)
            if state is not None and owed.seen is not None and not owed.seen.is_decided_by(_seen(state)):
                # It is none any more, and has not heard of that.
                self._source.forget_coordinator("transaction", name)
                await asyncio.sleep(_RETRY_S)
                continue
            if state is None or state.transaction_state != _DECIDED:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _described(self, transactional_id: str, node: int = _ANY) -> Any:
        """The transaction as its coordinator has it, `None` if that knows nobody of that id. Where a commit goes to a
        broker that one is asked: it decides nothing if it is cut off.

        :raises ClusterError: It does not tell, or is no coordinator of it.
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
        """The groups whose positions a transaction commits, by the partitions in which these are. What was seen here
        may not be all of it: where no group is known, all that are there may be meant.
        """
        if not partitions:
            return frozenset()
        topic = (await self._source.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else 0
        seen = self._seen.get(transactional_id, ())
        found = {group for group in seen if not count or offsets_partition(group, count) in partitions}
        unknown = set(partitions) - {offsets_partition(group, count) for group in found if count}
        if unknown:
            everywhere = await self._listed()
            found |= {each for each in everywhere if not count or offsets_partition(each, count) in unknown}
        return frozenset(found)

    async def _logs(self, keys: Collection[PartitionKey]) -> Mapping[PartitionKey, LogRange]:
        """Partitions of the source as they are now.

        :raises ClusterError: One does not tell.
        """
        if not keys:
            return {}
        found = await log_ranges(self._source, keys)
        for error in found.errors.values():
            raise error
        return found.values

    async def all_partitions(self, link: SyncLink) -> Collection[PartitionKey]:
        """All partitions of the source that a link copies.

        :raises ClusterError: The source does not tell.
        """
        topics = (await self._source.metadata(sorted(link.topics))).topics
        return [(name, part.partition) for name, each in topics.items() for part in each.partitions]

    async def all_groups(self, link: SyncLink) -> frozenset[str]:
        """All groups whose positions a link carries, but for those that it leaves alone: nobody would ever be answered.

        :raises ClusterError: The source does not tell.
        """
        parted = link.parted_groups
        return frozenset(each for each in await self._listed() if link.target_group(each) and each not in parted)

    async def _listed(self) -> Collection[str]:
        found = await list_groups(self._source)
        for error in found.errors.values():
            raise error
        return listed(found)


def _seen(state: Any) -> TransactionSeen:
    return TransactionSeen(
        state.producer_id,
        state.producer_epoch,
        state.transaction_start_time_ms,
        is_open=state.transaction_state == _ONGOING,
    )
