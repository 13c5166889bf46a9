"""One synchronous link as a gateway holds it: what it answers, what it has to prove, and what it writes before it acts.

The state is derived from what all gateways of the link write (`model/gateways/synchrony.py`), so the order matters:
write OUT_OF_SYNC, then release answers; prove, then write IN_SYNC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from isthmus.errors import ClusterError
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous.crossing import is_crossing
from isthmus.gateway.synchronous.readable import ReadRights
from isthmus.gateway.synchronous.targets import Target
from isthmus.gateway.synchronous.unusable import LostNamespaces
from isthmus.groups.positions.carrying import PARTED
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.gateways import is_readable
from isthmus.ledger.documents.kinds import (
    Document,
    GatewayDocument,
    GatewayPairDocument,
    PreparedDocument,
    ReadableDocument,
    SynchronizedDocument,
)
from isthmus.ledger.records import LedgerChange
from isthmus.memory.closed import find_reserved, following
from isthmus.memory.hearing import Beats
from isthmus.memory.leaving import ended_lanes, followed_topics, source_logs
from isthmus.memory.links import now_ms, read_ledger
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.gateways.synchrony import (
    FENCE_S,
    LOOK_S,
    GatewayWord,
    SyncEvidence,
    SyncPart,
    SyncSettings,
    SyncState,
    SyncWord,
    synchrony,
)
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import Visibility
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.writability import KeptBy
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.model.text.wording import first_few
from isthmus.status.status import StatusReader
from isthmus.synchronous.sameness import same_before

_log = logging.getLogger(__name__)
_RETRY_S: Final = 0.2
_UNHELD: Final = (Duty.PASS, Duty.LET_GO)


class _Owner(Protocol):
    """The links of this gateway: see `GatewayLinks`."""

    source: Client
    document: GatewayDocument

    @property
    def held(self) -> Collection[HeldLink]: ...
    @property
    def is_heard(self) -> bool: ...
    @property
    def is_trusted(self) -> bool: ...
    @property
    def is_blind(self) -> bool: ...
    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def order(self) -> None: ...
    async def write(self, changes: Iterable[LedgerChange]) -> None: ...


class HeldLink:
    """A synchronous link as this gateway sees it: see `SyncLink`."""

    def __init__(self, owner: _Owner, target: Target, link: Link, known: Declaration, *, owes: bool) -> None:
        self.link = link
        self.known = known
        self.losses = 0
        """See `SyncLink`."""
        self.target = target
        self.part = SyncPart(link.sync, owes=owes)
        self.written_at = float("inf")
        self.follower = target.follower
        self._owner = owner
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._since_ms = now_ms()
        self._beats = Beats()
        self._proving: tuple[int, asyncio.Task[None]] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._to_copy: list[Document] = []
        self._copying: asyncio.Task[None] | None = None
        self._losses: dict[TargetTopicPartition, tuple[int, int]] = dict(target.follower.losses)
        self._notes = target.notes(link.name, owner.document.gateway)
        self._cleaning: asyncio.Task[None] | None = None
        self._revealing: asyncio.Task[None] | None = None
        self._rights = ReadRights(owner.source, target.client)
        self._lost: LostNamespaces | None = None
        self.known_at = float("-inf")
        """All that both ledgers held before this time (`lasting_s`) was taken in here."""

    @property
    def name(self) -> str:
        """See `SyncLink`."""
        return self.link.name

    @property
    def settings(self) -> SyncSettings:
        """See `SyncLink`."""
        return self.link.sync

    @property
    def topics(self) -> Collection[SourceTopic]:
        """See `SyncLink`."""
        memory = self.target.memory
        return () if memory is None else sorted(followed_topics(self.link, memory.of(self.name)))

    @property
    def parted_groups(self) -> Collection[str]:
        """See `SyncLink`."""
        memory = self.target.memory
        found = () if memory is None else memory.of(self.name).groups(now_ms())
        return {each.group for each in found if each.standing in PARTED}

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic | None:
        """See `SyncLink`."""
        topics = self.link.topics
        if self._lost is not None and self._lost.target_topic(source_topic) is None:
            return None
        return topics.target_of(source_topic) if topics.matches(source_topic) else None

    def target_group(self, source_group: str) -> str | None:
        """See `SyncLink`."""
        groups = self.link.groups
        if self._lost is not None and self._lost.target_group(source_group) is None:
            return None
        return groups.naming.to_target(source_group) if groups.commit and groups.matches(source_group) else None

    def copies_open(self, key: SourceTopicPartition) -> bool:
        """See `SyncLink`."""
        topic, memory = self.target_topic(key[0]), self.target.memory
        if topic is None:
            return False
        # A lane that moved to another task or controller counts as before, until it reports otherwise.
        known = {} if memory is None else memory.of(self.name).last_known
        report = known.get(LaneKey(topic, key[1]))
        if report is None or report.source_end < 0:
            return self.link.transactions.visibility is not Visibility.RECORD
        return report.is_whole

    async def note(self, commit: PreparedCommit) -> None:
        """See `SyncLink`. Other gateways that take this one for gone may delete what it writes."""
        while not self._owner.is_trusted:
            await asyncio.sleep(_RETRY_S)
        await self._notes.add(commit)

    def forget(self, producer_id: int, ends: Mapping[TargetTopicPartition, int]) -> None:
        """See `SyncLink`."""
        self._notes.forget(producer_id, ends)

    def stand_still(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """See `SyncLink`."""
        self.part.stand_still(late, self._lag_of(late))
        self._owner.start(self._write())

    def _lag_of(self, late: Iterable[SourceTopicPartition]) -> str:
        named = first_few(f"{topic}-{partition}" for topic, partition in late)
        return f"the follower got nothing of {named} for {self.settings.lag_max_ms:,} ms"

    def duty(self, *, is_transactional: bool) -> Duty:
        """See `SyncLink`. A gateway that does not hear the ledger, or is not heard there, answers nothing unheld."""
        if self.is_lost:
            return Duty.REFUSE
        duty = self.part.duty(is_transactional=is_transactional)
        if self.part.is_over or self._owner.is_trusted or (self._owner.is_heard and duty not in _UNHELD):
            return duty
        return Duty.HOLD if self._owner.is_heard else Duty.REFUSE

    async def compare(self, ends: Mapping[SourceTopicPartition, int]) -> Mapping[SourceTopicPartition, bool | None]:
        """See `SyncLink`. Partitions that are no longer copied cannot be compared."""
        asked = {
            key: ((topic, key[1]), end) for key, end in ends.items() if (topic := self.target_topic(key[0])) is not None
        }
        found = dict.fromkeys(ends.keys() - asked) | await same_before(self._owner.source, self.target.client, asked)
        if other := sorted(key for key, is_same in found.items() if is_same is False):
            named = first_few(
                f"{topic}-{partition} before offset {ends[topic, partition]}" for topic, partition in other
            )
            self.part.stop(f"SOURCE CHANGED: the follower does not have the source's records in {named}")
        return found

    async def let_go(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """See `SyncLink`."""
        reason = self._lag_of(late)
        while True:
            self.part.let_go(late, reason)
            if self._may_leave(late):
                return
            self._changed.clear()
            await self._write()
            if self._may_leave(late):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._changed.wait()

    @property
    def mode_statement(self) -> str:
        """The id of the statement that made it synchronous."""
        return self.link.mode_said

    @property
    def attached_said(self) -> str:
        """The ids of the statements that attach its namespaces."""
        return self.known.attached_said

    @property
    def noted_by(self) -> Collection[str]:
        """The gateways with prepared commits in the ledger of the target, as it was read last."""
        return {each.gateway for each in PreparedDocument.find_all(self.target.documents(self.name).values())}

    async def write_there(self, changes: Iterable[LedgerChange]) -> None:
        """Append changes to the ledger of the target.

        :raises ClusterError: They were rejected, or not written within `WRITE_S`.
        """
        await self.target.write(changes)

    @property
    def is_lost(self) -> bool:
        """See `SyncLink`."""
        return self._lost is not None

    @property
    def is_current(self) -> bool:
        """See `SyncLink`. A failover of the link waits for gateways that are heard."""
        return lasting_s() - self.known_at <= FENCE_S

    def is_lost_at(self, known: Declaration) -> bool:
        """Whether this declaration is of a link that was failed over, and its lost namespaces are still refused."""
        return self._lost is not None and not known.maps and not self._lost.is_over(known)

    def lose(self, lost: Collection[NamespaceMap]) -> None:
        """Mark namespaces as failed over, and the link as over: requests for other topics pass."""
        self._lost = LostNamespaces(self.known, lost)
        self.part.lose()

    def go_by(self, known: Declaration) -> None:
        """Take in a declaration with other attachments, and write to the ledger that it is known here."""
        self.known = known
        if self._proving is not None:
            # The follower may never get what was detached meanwhile.
            self._proving[1].cancel()
            self._proving = None
        self.part.say_again()
        self._owner.start(self._write())

    def _may_leave(self, late: Mapping[SourceTopicPartition, int]) -> bool:
        return not self.is_lost and (self._owner.is_trusted or self.part.is_over) and self.part.may_leave(late)

    def update(self, link: Link) -> None:
        """Take in the link as it is declared now."""
        self.link, self.part.settings = link, link.sync

    def step(self) -> None:
        """Take in the evidence, and start the tasks that the state of the link needs."""
        before = self.part.state
        self.part.look(SyncEvidence(trouble=self._trouble()))
        self.part.explain(self._rights.missing)
        self._take_losses()
        if self.part.state is not before:
            _log.warning("link %s: %s", self.name, self.part.state)
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self._owner.start(self._notes.clean())
        if self._rights.is_due:
            self._owner.start(self._look_at_rights())
        if self.part.due is not None:
            self._owner.start(self._write())
        elif not self.part.is_holding:
            self._begin_looking()
        elif self.part.state is not SyncState.IN_SYNC and not is_crossing(self._owner.held):
            self._begin_proving()

    def reveal(self, words: Collection[GatewayWord]) -> None:
        """Write to the ledger of the target that the link is no longer SYNCING, once the words of all gateways prove
        it: from then on clients may read its topics there.
        """
        document = ReadableDocument(link=self.name, said=self.link.mode_said, since_ms=now_ms())
        known = self.target.documents(self.name).values()
        is_known = self.target.memory is None or is_readable(self.name, document.said, known)
        is_syncing = synchrony(words, trouble="", was_in_sync=False).state is SyncState.SYNCING
        if is_known or is_syncing or self.is_lost or (self._revealing is not None and not self._revealing.done()):
            return
        self._revealing = self._owner.start(self.target.write([document]))

    def _take_losses(self) -> None:
        """Let go where the follower lost data: records that were acknowledged may be missing there."""
        topics = {self.target_topic(name): name for name in self.topics}
        for key, (was, ends) in self.follower.losses.items():
            source = topics.get(key[0])
            if source is not None and self._losses.get(key) != (was, ends):
                self._losses[key] = was, ends
                reason = f"FOLLOWER LOST DATA: {key[0]}-{key[1]} ended at {was}, and then at {ends}"
                self.part.let_go({(source, key[1]): ends}, reason)

    def _trouble(self) -> str:
        """Return what keeps the lanes from following, by their ledger; "" where nothing does."""
        target, alias = self.target, self.link.target.alias
        if self._notes.late_s >= self.settings.lag_max_ms / 1000:
            return f"the ledger of {alias} cannot be written: commits over several partitions have to be noted there"
        if target.memory is None or target.is_away:
            return f"{alias} is not heard" if target.is_away else ""
        known = target.memory.of(self.name)
        if self._beats.is_gone(known):
            return "no controller runs the link"
        if known.paused.is_whole:
            return "the link is paused"
        ended = [f"{key} {state}" for key, state in sorted(ended_lanes(known).items())]
        if ended or self._rights.missing:
            return first_few(ended) or self._rights.missing
        kept = find_reserved(self.link, target.memory, target.cluster_id)
        open_ones = [str(each) for each in following(self.link) if kept.get(each) is not KeptBy.ACCESS_RULES]
        return f"{first_few(open_ones)} of {alias} is not closed by access rules" if open_ones else ""

    def _begin_looking(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self._owner.start(self._look())

    async def _look(self) -> None:
        """Find out whether the link follows, by the logs of both clusters."""
        async with ClientSession() as session:
            # Read as an asynchronous link: only whether it follows matters here.
            (found,) = await StatusReader((replace(self.link, mode="async"),), session).read()
        is_following = found.pair_state is PairState.FOLLOWING and not self._lacks(found)
        self.part.look(SyncEvidence(trouble=self._trouble(), is_following=is_following))

    def _lacks(self, found: LinkProgress) -> bool:
        """Whether the follower still lacks the offsets it lacked when it stood still: its lanes may have nothing to
        copy while they wait for an open transaction. Records that the source deleted are not waited for.
        """
        partitions = {each.key: each for topic in found.topics for each in topic.partitions}
        for (topic, partition), offset in self.part.lacked.items():
            target = self.target_topic(topic)
            seen = None if target is None else partitions.get(LaneKey(target, partition))
            if seen is not None and seen.target_end <= offset and not 0 <= seen.source_log_end <= offset:
                return True
        return False

    def _begin_proving(self) -> None:
        if self._proving is not None:
            begun, task = self._proving
            if begun == self.part.round and not task.done():
                return
            task.cancel()
        self._proving = self.part.round, self._owner.start(self._prove(self.part.round))

    async def _prove(self, begun: int) -> None:
        """Once every acknowledgement is held, wait until the follower has all that the source has then. That proves the
        round which had begun: the link is in sync if it is still the same, and this is written to the ledger.
        """
        while self._owner.is_blind:
            await asyncio.sleep(_RETRY_S)
        await self._look_at_rights()
        if not self._rights.missing:
            await self.wait_until_covered()
            self.part.prove(begun)
            await self._write()

    async def _look_at_rights(self) -> None:
        await self._rights.look({name: there for name in self.topics if (there := self.target_topic(name))})

    async def wait_until_covered(self) -> None:
        """Wait until the follower has all that the source has now, and the end of each transaction that is open there,
        as it may have been committed already.

        :raises ClusterError: The source does not answer, or the records differ or cannot be compared.
        """
        before = logs = await self._source_logs()
        while any(log.stable_end < before[key].end for key, log in logs.items() if key in before):
            await asyncio.sleep(_RETRY_S)
            logs = await self._source_logs()
        ends, there = {key: log.end for key, log in logs.items() if log.end > 0}, dict[TargetTopicPartition, int]()
        for (topic, partition), end in ends.items():
            target = self.target_topic(topic)
            if target is not None:
                there[target, partition] = end
        await self.follower.wait_until_covered(there)
        found = await self.compare(ends)
        if any(found.get(key, False) is False for key in ends):
            raise ClusterError(f"{self.name}: no proof that the follower has the source's records")

    async def _source_logs(self) -> Mapping[SourceTopicPartition, LogRange]:
        memory = self.target.memory
        if memory is None:
            memory = await read_ledger(self.target.client)
        return await source_logs(self.link, self._owner.source, followed_topics(self.link, memory.of(self.name)))

    def document(self, word: SyncWord) -> GatewayPairDocument:
        """Build the document of this gateway for the link, with this word."""
        return GatewayPairDocument(
            link=self.name,
            gateway=self._owner.document.gateway,
            said=self.link.mode_said,
            by=self._owner.document.described,
            state=word.state,
            since_ms=self._since_ms,
            out_of_sync=self.settings.out_of_sync,
            reason=word.reason,
            lets_go=word.lets_go,
            principal=self.target.client.cluster.principal or "",
            attached_said=self.known.attached_said,
        )

    def word_of(self, other: GatewayDocument) -> GatewayPairDocument:
        """Build the document that another gateway would write for this link when it is in sync."""
        word = self.document(SyncWord(state=SyncState.IN_SYNC))
        return replace(word, gateway=other.gateway, by=other.described)

    def _build_synchronized(self) -> SynchronizedDocument:
        """Build the document which says that this gateway is in sync. Topics that clients read at the target already
        stay readable.
        """
        mode_said, known = self.link.mode_said, self.target.documents(self.name).values()
        reveals = not is_readable(self.name, mode_said, known)
        return SynchronizedDocument(link=self.name, said=mode_said, since_ms=self._since_ms, reveals=reveals)

    async def _write(self) -> None:
        """Write the due words to the ledger before the link acts on them."""
        async with self._writing:
            while (word := self.part.due) is not None and not self.part.is_over:
                if self.part.word is None or self.part.word.state is not word.state:
                    self._since_ms = now_ms()
                document = self.document(word)
                changes: list[Document] = [document]
                if word.state is SyncState.IN_SYNC:
                    changes.append(self._build_synchronized())
                try:
                    self.written_at = float("inf")
                    await self._owner.write(changes)
                except ClusterError as error:
                    _log.warning("link %s: %s could not be written down: %s", self.name, word.state, error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                if document.attached_said != self.known.attached_said:
                    # The attachments changed meanwhile: the same word is due again.
                    continue
                self.written_at = lasting_s()
                self.part.wrote(word)
                self._owner.order()
                self._changed.set()
                _log.warning("link %s is %s here%s", self.name, word.state, f": {word.reason}" if word.reason else "")
                # Documents that the target lacks yet are copied with the newer ones.
                self._to_copy = list({each.key: each for each in (*self._to_copy, *changes)}.values())
                if self._copying is None or self._copying.done():
                    self._copying = self._owner.start(self._copy())

    async def _copy(self) -> None:
        """Copy the newest documents to the ledger of the target, for readers that cannot reach the source any more."""
        while changes := self._to_copy:
            try:
                await self.target.write(changes)
            except ClusterError:
                await asyncio.sleep(LOOK_S)
            else:
                if self._to_copy is changes:
                    self._to_copy = []

    async def leave(self) -> None:
        """Delete documents from the ledger of the target that are no longer needed."""
        await self._notes.leave()

    async def aclose(self) -> None:
        """Cancel the tasks of this link."""
        for task in (
            self._looking,
            self._copying,
            self._cleaning,
            self._revealing,
            None if self._proving is None else self._proving[1],
        ):
            if task is not None:
                task.cancel()
