"""Recover a diverged topic of a follower: set aside the records that only it has, delete it, and refill it.

Each step can be repeated: a repeated command continues where the earlier one ended. Until the topic is deleted
everything is derived again from the logs; from then on the ledger has what is needed. Records that only the target
has are written to the quarantine (acks=all) and read back before anything is deleted.

The deletion is announced in the ledger, by a writer of which there is only one at a time. After that announcement it is
checked once more that the link still attaches the topic and that the source still has the shared records: a verb that
detaches the topic fences that writer first, so either it is seen here, or nothing can be announced any more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import GateNotMet, PlanRefused
from isthmus.kafka.admin.changes import NewTopic
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.ledger.documents.kinds import PartedDocument, PauseDocument, RecoveryDocument
from isthmus.ledger.maps import lane_maps
from isthmus.ledger.records import Deletion, LedgerChange, in_batches
from isthmus.links.claiming import RecoveryClaim
from isthmus.local.operator import operator
from isthmus.memory.hearing import Beats, is_gone, is_run, term_s
from isthmus.memory.links import LinkMemory, now_ms, recollect
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.links.recovery import (
    DivergedPartition,
    HeldPosition,
    RecoveryStage,
    RecoveryWay,
    RestoredPosition,
    TopicRecovery,
    quarantine_of,
)
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery import positions, rebuilding
from isthmus.recovery.attachment import LinkAttachment
from isthmus.recovery.continuing import going_on, not_refilled
from isthmus.recovery.parting import Parting, is_parted, parted_traces, said_of_parted, told_by_map
from isthmus.recovery.quarantine import Quarantine
from isthmus.recovery.quiet import LOOK_S, OnStep, QuietTopic
from isthmus.recovery.sides import BothTopics, both_topics, is_as_compared

_TIMES: Final = 5
"""A source that changes between the comparison and the deletion is compared again this many times."""


class _Diverged(NamedTuple):
    """A diverged topic that nobody writes to: the ledger's memory and recovery document of it, and both logs."""

    known: LinkMemory
    document: RecoveryDocument
    both: BothTopics
    there: TopicDescription
    partitions: tuple[DivergedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecoverer:
    """Recovers one topic of a link. `quiet_s` is for how long the target must not have been written to.

    `way` is how, `None` for the way in which it was begun. With `sets_aside` records that only the target has go into
    quarantine even where the topic is not deleted. With `only_own` a topic that others have written to is left alone.
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
        """Return what would be done. Nothing is changed.

        :raises PlanRefused: The topic is being rebuilt, and was asked to continue with mapped offsets.
        :raises ClusterError: A cluster does not answer.
        """
        known = await recollect(self.link.name, self.target)
        both, way = await self._both(), self._choose_way(known)
        if (document := self._find_progress(known, both, way)) is not None:
            return self._describe(document)
        partitions = await both.compare(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            return self._unchanged_recovery(partitions)
        held = await self._find_positions(both)
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

        :raises GateNotMet: Clients are at work at the target, lanes do not end, the topic is not refilled in time, or
            not all groups could be put back.
        :raises PlanRefused: Another process recovers the link, or the topic is being rebuilt and was asked to go on
            mapped.
        :raises ClusterError: A cluster does not answer; a repeated call continues.
        """
        known = await recollect(self.link.name, self.target)
        both, way = await self._both(), self._choose_way(known)
        document = self._find_progress(known, both, way)
        if document is None:
            if both.target is None:
                await self._give_up(claim, known)
                return self._unchanged_recovery()
            found = await self._pause_and_compare(claim, both.target, way)
            if found is None:
                return self._unchanged_recovery()
            if self.only_own and await self._quarantine(found).holds_others(found.partitions):
                await claim.write(Deletion(found.document.key), *await self._resuming_changes())
                return self._unchanged_recovery(found.partitions)
            if way is RecoveryWay.MAPPED:
                return await self._go_on(claim, found)
            document = await self._set_aside(claim, found)
        if document.way is RecoveryWay.MAPPED:
            before = self._document(known)
            if before is not None and before.stage != RecoveryStage.DONE:
                await self._repeat_writes(claim, document, before)
            return self._describe(document)
        if document.stage == RecoveryStage.REBUILDING:
            emptied = await self._delete_topic(claim, document)
            if emptied is None:
                return self._unchanged_recovery()
            document = await self._rebuild(claim, emptied)
        return await self._restore_groups(claim, document)

    def _choose_way(self, known: LinkMemory) -> RecoveryWay:
        """Return the way that was asked for, or else the way in which the recovery was begun."""
        document = self._document(known)
        if self.way is not None or document is None or document.stage == RecoveryStage.DONE:
            return self.way or RecoveryWay.REBUILD
        return document.way

    def _find_progress(self, known: LinkMemory, both: BothTopics, way: RecoveryWay) -> RecoveryDocument | None:
        """Return the ledger's document of a recovery, if it came so far that the document, and no longer the target's
        logs, determines how to continue; `None` for none.
        """
        document = self._document(known)
        parted = PartedDocument.find(known.documents, self.link.name, self.topic)
        if parted is not None and way is RecoveryWay.MAPPED and self._is_parted(known, both):
            # A rebuilding that was begun since and has deleted nothing is dropped.
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

    async def _give_up(self, claim: RecoveryClaim, known: LinkMemory) -> None:
        """Delete the document of a recovery whose topic was deleted before its logs were compared: nothing is left of
        the topic, and lanes fill the next one from the beginning.
        """
        document = self._document(known)
        if document is not None and document.stage != RecoveryStage.DONE:
            await claim.write(Deletion(document.key), *await self._resuming_changes())

    # Before the diverged topic is deleted

    async def _pause_and_compare(
        self, claim: RecoveryClaim, there: TopicDescription, way: RecoveryWay
    ) -> _Diverged | None:
        """Pause and compare the topic, once nobody writes to it; `None` where both sides are alike."""
        known = await recollect(self.link.name, self.target)
        document = self._begin(known, there, way)
        self.on_step(f"{self.topic}: pausing")
        pause = PauseDocument(
            link=self.link.name, topic=self.topic, since_ms=now_ms(), by=document.by, for_recovery=True
        )
        # A topic that an operator has paused stays paused.
        await claim.write(document, *([] if pause.key in known.documents else [pause]))
        # A topic that stays may have no open transaction: its records would appear twice, as they are copied again.
        logs = await replace(self._quiet, is_to_go=way is RecoveryWay.REBUILD).await_it(there)
        self.on_step(f"{self.topic}: comparing both logs")
        both = replace(await self._both(), target_logs=logs)
        if both.target is None or both.target.topic_id != there.topic_id:
            raise GateNotMet(
                f"{self.topic} of {self.target.cluster.alias} was deleted meanwhile",
                hint="Give the command again: it goes on from there.",
            )
        partitions = await both.compare(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            await claim.write(Deletion(document.key), *await self._resuming_changes())
            return None
        return _Diverged(known, document, both, there, partitions)

    async def _set_aside(self, claim: RecoveryClaim, found: _Diverged) -> RecoveryDocument:
        """Write all records that only the target has to the quarantine, and what the rebuilding needs to the ledger."""
        held = await self._find_positions(found.both)
        await positions.require_nobody(self.target, {each.group for each in held})
        taken = await self._fill_quarantine(found)
        self.on_step(f"{self.topic}: remembering where groups stand")
        held = await self._find_positions(found.both)
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

    async def _fill_quarantine(self, found: _Diverged) -> int:
        """Write all records that only the target has to the quarantine; return how many there are."""
        self.on_step(f"{self.topic}: setting aside what only {self.target.cluster.alias} has")
        quarantine = self._quarantine(found)
        taken = 0
        for each in found.partitions:
            if each.head.begin < each.head.end or each.tail.begin < each.tail.end:
                await quarantine.open(found.there.partition_count, self.ledger.replication_factor)
                taken += await quarantine.take(each)
        return taken

    async def _find_positions(self, both: BothTopics) -> tuple[HeldPosition, ...]:
        """Return the positions of groups at the target, with those at the source where an offset map has them."""
        held = await positions.held_positions(self.target, self.topic)
        known = await recollect(self.link.name, self.target)
        if not self._is_parted(known, both):
            return held
        maps = lane_maps(self.link.name, known.documents)
        return tuple(told_by_map(each, maps.get(LaneKey(self.topic, each.partition))) for each in held)

    async def _go_on(self, claim: RecoveryClaim, found: _Diverged) -> TopicRecovery:
        """Let the link continue behind the target's end. All is written to the ledger at once: before, nothing
        changes.
        """
        taken = await self._fill_quarantine(found) if self.sets_aside else 0
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
        # In one batch, unless there are too many partitions. Lanes get new identities before they may run.
        for batch in in_batches([*await parting.changes(), document, *await self._resuming_changes()]):
            await claim.write(*batch)
        return self._describe(document)

    async def _repeat_writes(self, claim: RecoveryClaim, document: RecoveryDocument, before: RecoveryDocument) -> None:
        """Repeat interrupted writes; or give up rebuilding a topic whose lanes had gone on mapped."""
        known = await recollect(self.link.name, self.target)
        changes: list[LedgerChange] = []
        if before.way is RecoveryWay.MAPPED:
            changes = said_of_parted(known, self.topic, is_run=await is_run(self.link.name, self.target))
        for batch in in_batches([*changes, document, *await self._resuming_changes()]):
            await claim.write(*batch)

    def _begin(self, known: LinkMemory, there: TopicDescription, way: RecoveryWay) -> RecoveryDocument:
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
        identity = found.known.identity
        own = () if identity is None else (identity.producer_id,)
        return Quarantine(
            source=self.source,
            target=self.target,
            source_topic=self.source_topic,
            topic=self.topic,
            topic_id=found.there.topic_id,
            own_producers=own,
        )

    # From the deletion of the topic on

    async def _delete_topic(self, claim: RecoveryClaim, document: RecoveryDocument) -> RecoveryDocument | None:
        """Delete the diverged topic, unless it is gone. Records that the source has lost since the comparison are set
        aside first; `None` where both sides are alike by then.

        :raises GateNotMet: Clients write to the target, or the source keeps changing.
        :raises PlanRefused: Another process recovers the link, or it does not attach the topic any more.
        """
        for _ in range(_TIMES):
            there = (await self._both()).target
            if there is None or there.topic_id != document.topic_id or await self._delete_if_unchanged(claim, document):
                return document
            self.on_step(f"{self.topic}: {self.source.cluster.alias} has changed meanwhile")
            found = await self._pause_and_compare(claim, there, document.way)
            if found is None:
                return None
            document = await self._set_aside(claim, found)
        raise GateNotMet(
            f"{self.source_topic} of {self.source.cluster.alias} keeps losing what {self.topic} shares with it",
            hint="See what deletes there (its retention, elections); then give the command again. Nothing was deleted.",
        )

    async def _delete_if_unchanged(self, claim: RecoveryClaim, document: RecoveryDocument) -> bool:
        """Announce the deletion, and delete the topic if nothing has changed since; return whether it was deleted."""
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
                # A process that stood still meanwhile checks everything again.
                await rebuilding.delete(self.target, self.topic, document.topic_id)
                return True

    async def _require_attached(self, claim: RecoveryClaim, document: RecoveryDocument) -> None:
        """Require that the link still attaches the topic; if not, undo what was begun.

        :raises PlanRefused: The link does not attach it.
        """
        try:
            await self.attachment.require(self.topic, self.source_topic)
        except PlanRefused:
            await claim.write(Deletion(document.key), *await self._resuming_changes())
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
        await claim.write(document, *await self._resuming_changes(), *former)
        return document

    async def _resuming_changes(self) -> list[Deletion]:
        """Return the changes that let lanes run again, unless an operator has paused the topic, before or meanwhile."""
        known = await recollect(self.link.name, self.target)
        pause = PauseDocument.find(known.documents, self.link.name, self.topic)
        return [Deletion(pause.key)] if pause is not None and pause.for_recovery else []

    async def _restore_groups(self, claim: RecoveryClaim, document: RecoveryDocument) -> TopicRecovery:
        """Put groups back to their positions as soon as those records are there again; only then it is done."""
        wanted = positions.foreseen(document.positions, document.partitions)
        if wanted:
            self.on_step(f"{self.topic}: waiting until it holds what groups have read")
            await self._await_refill(wanted)
            self.on_step(f"{self.topic}: putting groups back")
            wanted = await positions.restore(self.target, self.topic, document.positions, wanted)
        document = replace(document, stage=RecoveryStage.DONE, at_ms=now_ms())
        await claim.write(document)
        return replace(self._describe(document), positions=wanted)

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

    # For all steps

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

    def _unchanged_recovery(self, partitions: tuple[DivergedPartition, ...] = ()) -> TopicRecovery:
        return TopicRecovery(topic=self.topic, source_topic=self.source_topic, stage=None, partitions=partitions)

    def _document(self, known: LinkMemory) -> RecoveryDocument | None:
        return RecoveryDocument.find(known.documents, self.link.name, self.topic)

    def _describe(self, document: RecoveryDocument) -> TopicRecovery:
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
