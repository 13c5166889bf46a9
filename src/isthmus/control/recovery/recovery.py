"""A follower that has diverged is brought back: its topic is set aside as far as only it has it, deleted, and refilled.

Each step can be done again: whoever repeats the command goes on where the one before ended. Until the topic is deleted
everything is found anew from the logs; from then on the ledger has what is needed. What only the target has is written
to the quarantine (acks=all) and read back before anything is deleted.

The deletion is announced in the ledger, by the writer of which there is one at a time. Behind that announcement it is
asked once more whether the link still attaches the topic and the source still has what both shared: whoever lets go of
the link fences that writer first, so either he is seen here, or nothing can be announced any more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.cluster.changes import NewTopic
from isthmus.cluster.offsets import log_ranges
from isthmus.control.links.claiming import RecoveryClaim
from isthmus.control.links.hearing import Beats, is_gone, is_run, term_s
from isthmus.control.links.host import operator
from isthmus.control.links.memory import LinkMemory, now_ms, recollect
from isthmus.control.recovery import positions, rebuilding
from isthmus.control.recovery.attachment import LinkAttachment
from isthmus.control.recovery.continuing import going_on, not_refilled
from isthmus.control.recovery.parting import Parting, is_parted, parted_traces, said_of_parted, told_by_map
from isthmus.control.recovery.quarantine import Quarantine
from isthmus.control.recovery.quiet import LOOK_S, OnStep, QuietTopic
from isthmus.control.recovery.sides import BothTopics, both_topics, is_as_compared
from isthmus.deadline import Deadline
from isthmus.errors import GateNotMet, PlanRefused
from isthmus.ledger.documents import LinkDocument, PartedDocument, PauseDocument, RecoveryDocument
from isthmus.ledger.maps import lane_maps
from isthmus.ledger.records import Deletion, LedgerChange, in_batches
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recovery import (
    DivergedPartition,
    HeldPosition,
    RecoveryStage,
    RecoveryWay,
    RestoredPosition,
    TopicRecovery,
    quarantine_of,
)
from isthmus.model.topic import TopicDescription
from isthmus.wire.client import Client

_TIMES: Final = 5
"""So often a source that changes between the comparison and the deletion is compared anew."""


class _Diverged(NamedTuple):
    """A topic that has diverged, while nobody writes to it: what the ledger knew and knows of it, and both logs."""

    known: LinkMemory
    document: RecoveryDocument
    both: BothTopics
    there: TopicDescription
    partitions: tuple[DivergedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecoverer:
    """Recovers one topic of a link. `quiet_s` is for how long nobody may have written to the target.

    `way` is how, `None` for that in which it was begun. With `sets_aside` what only the target has goes into quarantine
    where the topic is not deleted, too. With `only_own` a topic is left as it is where anybody else has written to it.
    """

    link: Link
    attachment: LinkAttachment
    source: Client
    target: Client
    topic: TargetTopic
    source_topic: SourceTopic
    ledger: LedgerSettings
    quiet_s: float
    timeout_s: float
    on_step: OnStep
    way: RecoveryWay | None = None
    sets_aside: bool = False
    only_own: bool = False

    async def foresee(self) -> TopicRecovery:
        """What would be done. Nothing is changed.

        :raises PlanRefused: The topic is being rebuilt, and is to go on mapped.
        :raises ClusterError: A cluster does not answer.
        """
        known = await recollect(self.link.name, self.target)
        both, way = await self._both(), self._chosen(known)
        if (document := self._begun_before(known, both, way)) is not None:
            return self._told(document)
        partitions = await both.compared(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            return self._unchanged(partitions)
        held = await self._held(both)
        return TopicRecovery(
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage.SETTING_ASIDE,
            way=way,
            partitions=partitions,
            quarantine=quarantine_of(self.topic) if way is RecoveryWay.REBUILD or self.sets_aside else "",
            positions=positions.foreseen(held, partitions) if way is RecoveryWay.REBUILD else (),
        )

    async def recover(self, claim: RecoveryClaim) -> TopicRecovery:
        """Do all that is left to do.

        :raises GateNotMet: Somebody is at work at the target, lanes do not end, nobody refills the topic in time, or
            not all groups could be put back.
        :raises PlanRefused: Somebody else recovers the link, or the topic is being rebuilt and shall go on mapped.
        :raises ClusterError: A cluster does not answer; a repeated call goes on.
        """
        known = await recollect(self.link.name, self.target)
        both, way = await self._both(), self._chosen(known)
        document = self._begun_before(known, both, way)
        if document is None:
            if both.target is None:
                await self._given_up(claim, known)
                return self._unchanged()
            found = await self._diverged(claim, both.target, way)
            if found is None:
                return self._unchanged()
            if self.only_own and await self._quarantine(found).holds_others(found.partitions):
                await claim.write(Deletion(found.document.key), *await self._resumption())
                return self._unchanged(found.partitions)
            if way is RecoveryWay.MAPPED:
                return await self._go_on(claim, found)
            document = await self._set_aside(claim, found)
        if document.way is RecoveryWay.MAPPED:
            before = self._document(known)
            if before is not None and before.stage != RecoveryStage.DONE:
                await self._say_again(claim, document, before)
            return self._told(document)
        if document.stage == RecoveryStage.REBUILDING:
            emptied = await self._emptied(claim, document)
            if emptied is None:
                return self._unchanged()
            document = await self._rebuild(claim, emptied)
        return await self._refilled(claim, document)

    def _chosen(self, known: LinkMemory) -> RecoveryWay:
        """The way asked for, or else that in which it was begun."""
        document = self._document(known)
        if self.way is not None or document is None or document.stage == RecoveryStage.DONE:
            return self.way or RecoveryWay.REBUILD
        return document.way

    def _begun_before(self, known: LinkMemory, both: BothTopics, way: RecoveryWay) -> RecoveryDocument | None:
        """What the ledger has of a recovery that came so far that it, not the target's logs, says how to go on."""
        document = self._document(known)
        parted = known.documents.get(f"{PartedDocument.KIND}/{self.link.name}/{self.topic}")
        if isinstance(parted, PartedDocument) and way is RecoveryWay.MAPPED and self._is_parted(known, both):
            # A rebuilding that was begun since and has deleted nothing is given up.
            was_mapped = document is not None and document.way is RecoveryWay.MAPPED
            return RecoveryDocument(
                link=self.link.name,
                topic=self.topic,
                source_topic=self.source_topic,
                stage=RecoveryStage.DONE,
                way=RecoveryWay.MAPPED,
                topic_id=parted.target_topic_id,
                partitions=parted.partitions,
                quarantined=document.quarantined if document is not None and was_mapped else 0,
                by=parted.by,
                at_ms=parted.at_ms,
            )
        begun = None if document is None else going_on(document, both.target, known.topics.get(self.topic))
        if begun is not None and self.way is RecoveryWay.MAPPED:
            raise PlanRefused(
                f"{self.topic} is being rebuilt, and the topic that had diverged is given up",
                hint="Give the command without --way: it goes on where it was interrupted.",
            )
        return begun

    def _is_parted(self, known: LinkMemory, both: BothTopics) -> bool:
        return both.target is not None and is_parted(known, both.source, both.target)

    async def _given_up(self, claim: RecoveryClaim, known: LinkMemory) -> None:
        """Take back what a recovery had begun whose topic was deleted before its logs were compared: nothing is left
        of it, and lanes fill the next one from the beginning.
        """
        document = self._document(known)
        if document is not None and document.stage != RecoveryStage.DONE:
            await claim.write(Deletion(document.key), *await self._resumption())

    # While the topic is there that has diverged

    async def _diverged(self, claim: RecoveryClaim, there: TopicDescription, way: RecoveryWay) -> _Diverged | None:
        """The topic paused and compared, once nobody writes to it; `None` where both sides are alike."""
        known = await recollect(self.link.name, self.target)
        document = self._begun(known, there, way)
        self.on_step(f"{self.topic}: pausing")
        pause = PauseDocument(
            link=self.link.name, topic=self.topic, since_ms=now_ms(), by=document.by, for_recovery=True
        )
        # What an operator has paused stays his.
        await claim.write(document, *([] if pause.key in known.documents else [pause]))
        # What stays would show the records of an open transaction a second time: the source's are copied anew then.
        logs = await replace(self._quiet, is_to_go=way is RecoveryWay.REBUILD).await_it(there)
        self.on_step(f"{self.topic}: comparing both logs")
        both = replace(await self._both(), target_logs=logs)
        if both.target is None or both.target.topic_id != there.topic_id:
            raise GateNotMet(
                f"{self.topic} of {self.target.cluster.alias} was deleted meanwhile",
                hint="Give the command again: it goes on from there.",
            )
        partitions = await both.compared(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            await claim.write(Deletion(document.key), *await self._resumption())
            return None
        return _Diverged(known, document, both, there, partitions)

    async def _set_aside(self, claim: RecoveryClaim, found: _Diverged) -> RecoveryDocument:
        """Bring all that only the target has into the quarantine, and remember what is needed to build it anew."""
        held = await self._held(found.both)
        await positions.require_nobody(self.target, {each.group for each in held})
        taken = await self._quarantined(found)
        self.on_step(f"{self.topic}: remembering where groups stand")
        held = await self._held(found.both)
        await positions.require_nobody(self.target, {each.group for each in held})
        await self._quiet.require_unmoved(found.both.target_logs)
        held_back = found.known.topics.get(self.topic)
        before = () if held_back is None else held_back.settles
        rebuilt = rebuilding.rebuilding_of(found.both, found.there, self.link.configs, before)
        document = replace(
            found.document,
            stage=RecoveryStage.REBUILDING,
            source_topic_id=found.both.source.topic_id,
            replication_factor=found.there.replication_factor,
            configs=rebuilt.configs,
            settles=rebuilt.settles,
            partitions=found.partitions,
            positions=held,
            quarantined=taken,
            at_ms=now_ms(),
        )
        await claim.write(document)
        return document

    async def _quarantined(self, found: _Diverged) -> int:
        """Bring all that only the target has into the quarantine; how many records that are."""
        self.on_step(f"{self.topic}: setting aside what only {self.target.cluster.alias} has")
        quarantine = self._quarantine(found)
        taken = 0
        for each in found.partitions:
            if each.head.begin < each.head.end or each.tail.begin < each.tail.end:
                await quarantine.open(found.there.partition_count, self.ledger.replication_factor)
                taken += await quarantine.take(each)
        return taken

    async def _held(self, both: BothTopics) -> tuple[HeldPosition, ...]:
        """Where groups stand at the target, with where that is at the source if a map tells."""
        held = await positions.held_positions(self.target, self.topic)
        known = await recollect(self.link.name, self.target)
        if not self._is_parted(known, both):
            return held
        maps = lane_maps(self.link.name, known.documents)
        return tuple(told_by_map(each, maps.get(LaneKey(self.topic, each.partition))) for each in held)

    async def _go_on(self, claim: RecoveryClaim, found: _Diverged) -> TopicRecovery:
        """Have the link go on behind the target's end. The ledger has it all at once: before, nothing has changed."""
        taken = await self._quarantined(found) if self.sets_aside else 0
        self.on_step(f"{self.topic}: going on behind its end with mapped offsets")
        document = replace(
            found.document, stage=RecoveryStage.DONE, partitions=found.partitions, quarantined=taken, at_ms=now_ms()
        )
        parting = Parting(
            link=self.link,
            target=self.target,
            known=await recollect(self.link.name, self.target),
            both=found.both,
            there=found.there,
            document=document,
        )
        # All at once, if partitions are not too many for that. Lanes hear that they are others before they may run.
        for batch in in_batches([*await parting.changes(), document, *await self._resumption()]):
            await claim.write(*batch)
        return self._told(document)

    async def _say_again(self, claim: RecoveryClaim, document: RecoveryDocument, before: RecoveryDocument) -> None:
        """Say once more what was cut off while it was said; or give up a rebuilding, before which lanes had gone on."""
        known = await recollect(self.link.name, self.target)
        said: list[LedgerChange] = []
        if before.way is RecoveryWay.MAPPED:
            said = said_of_parted(known, self.topic, is_run=await is_run(self.link.name, self.target))
        for batch in in_batches([*said, document, *await self._resumption()]):
            await claim.write(*batch)

    def _begun(self, known: LinkMemory, there: TopicDescription, way: RecoveryWay) -> RecoveryDocument:
        before = self._document(known)
        if before is not None and before.topic_id == there.topic_id and before.stage != RecoveryStage.DONE:
            return replace(before, stage=RecoveryStage.SETTING_ASIDE, way=way, by=operator(), at_ms=now_ms())
        return RecoveryDocument(
            link=self.link.name,
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage.SETTING_ASIDE,
            way=way,
            topic_id=there.topic_id,
            by=operator(),
            at_ms=now_ms(),
        )

    def _quarantine(self, found: _Diverged) -> Quarantine:
        identity = found.known.documents.get(f"{LinkDocument.KIND}/{self.link.name}")
        own = (identity.producer_id,) if isinstance(identity, LinkDocument) else ()
        return Quarantine(
            source=self.source,
            target=self.target,
            source_topic=self.source_topic,
            topic=self.topic,
            topic_id=found.there.topic_id,
            own_producers=own,
        )

    # From its deletion on

    async def _emptied(self, claim: RecoveryClaim, document: RecoveryDocument) -> RecoveryDocument | None:
        """Delete the topic that diverged, unless it is gone. What the source has lost since both were compared is set
        aside first; `None` where both sides are alike by then.

        :raises GateNotMet: Somebody writes to the target, or the source keeps changing.
        :raises PlanRefused: Somebody else recovers the link, or it does not attach the topic any more.
        """
        for _ in range(_TIMES):
            there = (await self._both()).target
            if there is None or there.topic_id != document.topic_id or await self._is_deleted(claim, document):
                return document
            self.on_step(f"{self.topic}: {self.source.cluster.alias} has changed meanwhile")
            found = await self._diverged(claim, there, document.way)
            if found is None:
                return None
            document = await self._set_aside(claim, found)
        raise GateNotMet(
            f"{self.source_topic} of {self.source.cluster.alias} keeps losing what {self.topic} shares with it",
            hint="See what deletes there (its retention, elections); then give the command again. Nothing was deleted.",
        )

    async def _is_deleted(self, claim: RecoveryClaim, document: RecoveryDocument) -> bool:
        """Announce the deletion, and delete the topic if everything is still as it was found: whether it was so."""
        while True:
            self.on_step(f"{self.topic}: deleting")
            await claim.write(document)
            await self._require_attached(claim, document)
            if not await is_as_compared(self.source, await self._both(), document):
                return False
            await self._quiet.require_unmoved(
                {each.partition: LogRange(0, each.target_end, each.target_end) for each in document.partitions}
            )
            if claim.is_held:
                # Whoever stood still meanwhile looks at everything again.
                await rebuilding.delete(self.target, self.topic, document.topic_id)
                return True

    async def _require_attached(self, claim: RecoveryClaim, document: RecoveryDocument) -> None:
        """See that the link still attaches the topic; if not, take back what was begun.

        :raises PlanRefused: It does not.
        """
        try:
            await self.attachment.require(self.topic, self.source_topic)
        except PlanRefused:
            await claim.write(Deletion(document.key), *await self._resumption())
            raise

    async def _rebuild(self, claim: RecoveryClaim, document: RecoveryDocument) -> RecoveryDocument:
        both = await self._both()
        groups = {each.group for each in document.positions}
        await positions.await_forgotten(self.target, self.topic, groups)
        self.on_step(f"{self.topic}: creating it again")
        new = NewTopic(
            name=self.topic,
            partition_count=both.source.partition_count,
            replication_factor=document.replication_factor,
            configs=dict(document.configs),
        )
        rebuilt_id = await rebuilding.create(self.target, new)
        document = replace(document, stage=RecoveryStage.REFILLING, rebuilt_id=rebuilt_id, at_ms=now_ms())
        former = parted_traces(await recollect(self.link.name, self.target), self.topic)
        await claim.write(document, *await self._resumption(), *former)
        return document

    async def _resumption(self) -> list[Deletion]:
        """What has lanes run again, unless an operator has paused the topic, before or meanwhile."""
        known = await recollect(self.link.name, self.target)
        pause = PauseDocument(link=self.link.name, topic=self.topic, since_ms=0)
        found = known.documents.get(pause.key)
        return [Deletion(pause.key)] if isinstance(found, PauseDocument) and found.for_recovery else []

    async def _refilled(self, claim: RecoveryClaim, document: RecoveryDocument) -> TopicRecovery:
        """Put groups back where they stood, as soon as that is there again; until all are, it is not done."""
        wanted = positions.foreseen(document.positions, document.partitions)
        if wanted:
            self.on_step(f"{self.topic}: waiting until it holds what groups have read")
            await self._await_refill(wanted)
            self.on_step(f"{self.topic}: putting groups back")
            wanted = await positions.restore(self.target, self.topic, document.positions, wanted)
        document = replace(document, stage=RecoveryStage.DONE, at_ms=now_ms())
        await claim.write(document)
        return replace(self._told(document), positions=wanted)

    async def _await_refill(self, wanted: tuple[RestoredPosition, ...]) -> None:
        ends = {each.partition: 0 for each in wanted}
        for each in wanted:
            ends[each.partition] = max(ends[each.partition], each.after)
        deadline, beats = Deadline(self.timeout_s), Beats()
        while True:
            found = await log_ranges(self.target, [(self.topic, partition) for partition in ends])
            logs = {partition: log.end for (_, partition), log in found.values.items()}
            if all(logs.get(partition, -1) >= end for partition, end in ends.items()):
                return
            known = await recollect(self.link.name, self.target)
            is_run = not is_gone(known) and beats.silent_s(known) < term_s(known)
            is_paused = known.paused.covers(self.topic)
            if not is_run or is_paused or deadline.has_passed:
                raise not_refilled(self.link.name, self.topic, wanted, is_run=is_run, is_paused=is_paused)
            await asyncio.sleep(LOOK_S)

    # Everywhere

    async def _both(self) -> BothTopics:
        return await both_topics(self.source, self.target, self.source_topic, self.topic)

    @property
    def _quiet(self) -> QuietTopic:
        return QuietTopic(
            link=self.link,
            target=self.target,
            topic=self.topic,
            quiet_s=self.quiet_s,
            timeout_s=self.timeout_s,
            on_step=self.on_step,
        )

    def _unchanged(self, partitions: tuple[DivergedPartition, ...] = ()) -> TopicRecovery:
        return TopicRecovery(topic=self.topic, source_topic=self.source_topic, stage=None, partitions=partitions)

    def _document(self, known: LinkMemory) -> RecoveryDocument | None:
        found = known.documents.get(f"{RecoveryDocument.KIND}/{self.link.name}/{self.topic}")
        return found if isinstance(found, RecoveryDocument) else None

    def _told(self, document: RecoveryDocument) -> TopicRecovery:
        return TopicRecovery(
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage(document.stage),
            way=document.way,
            partitions=document.partitions,
            quarantine=quarantine_of(self.topic) if document.quarantined else "",
            quarantined=document.quarantined,
            positions=positions.foreseen(document.positions, document.partitions),
        )
