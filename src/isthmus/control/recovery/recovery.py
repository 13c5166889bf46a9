"""A follower that has diverged is brought back: its topic is set aside as far as only it has it, deleted, and refilled.

Each step can be done again: whoever repeats the command goes on where the one before ended. Until the topic is deleted
everything is found anew from the logs; from then on the ledger has what is needed. What only the target has is written
to the quarantine (acks=all) and read back before anything is deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from isthmus.cluster.changes import NewTopic
from isthmus.cluster.offsets import log_ranges
from isthmus.control.links.host import operator
from isthmus.control.links.leaving import is_writing
from isthmus.control.links.memory import LinkMemory, now_ms, recollect
from isthmus.control.recovery import positions, rebuilding
from isthmus.control.recovery.claiming import RecoveryClaim
from isthmus.control.recovery.quarantine import Quarantine
from isthmus.control.recovery.sides import BothTopics, both_topics
from isthmus.errors import GateNotMet
from isthmus.ledger.documents import LinkDocument, PauseDocument, RecoveryDocument
from isthmus.ledger.records import Deletion
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recovery import RecoveryStage, RestoredPosition, TopicRecovery, quarantine_of
from isthmus.model.state import ControllerState
from isthmus.model.topic import TopicDescription
from isthmus.wire.client import Client

OnStep = Callable[[str], None]
LOOK_S: Final = 0.3
GONE_S: Final = 60.0
"""Tasks of a controller that was not heard for so long have ended: they give up without it after seconds."""
_NAMED_MAX: Final = 3
_IRREVOCABLE: Final = frozenset({RecoveryStage.REBUILDING, RecoveryStage.REFILLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecoverer:
    """Recovers one topic of a link. `quiet_s` is for how long nobody may have written to the target."""

    link: Link
    source: Client
    target: Client
    topic: TargetTopic
    source_topic: SourceTopic
    ledger: LedgerSettings
    quiet_s: float
    timeout_s: float
    on_step: OnStep

    async def foresee(self) -> TopicRecovery:
        """What would be done. Nothing is changed.

        :raises ClusterError: A cluster does not answer.
        """
        document = await self._document()
        both = await self._both()
        if document is not None and _is_under_way(document, both.target):
            return self._told(document)
        partitions = await both.compared(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            return TopicRecovery(topic=self.topic, source_topic=self.source_topic, stage=None, partitions=partitions)
        held = await positions.held_positions(self.target, self.topic)
        return TopicRecovery(
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage.SETTING_ASIDE,
            partitions=partitions,
            quarantine=quarantine_of(self.topic),
            positions=positions.foreseen(held, partitions),
        )

    async def recover(self, claim: RecoveryClaim) -> TopicRecovery:
        """Do all that is left to do.

        :raises GateNotMet: Somebody is at work at the target, lanes do not end, or nobody refills the topic in time.
        :raises PlanRefused: Somebody else recovers the link by now.
        :raises ClusterError: A cluster does not answer; a repeated call goes on.
        """
        document = await self._document()
        both = await self._both()
        if document is None or not _is_under_way(document, both.target):
            if both.target is None:
                return TopicRecovery(topic=self.topic, source_topic=self.source_topic, stage=None)
            document = await self._set_aside(claim, both.target)
            if document is None:
                return TopicRecovery(topic=self.topic, source_topic=self.source_topic, stage=None)
        if document.stage == RecoveryStage.REBUILDING:
            document = await self._rebuild(claim, document)
        return await self._refilled(claim, document)

    # While the topic is there that has diverged

    async def _set_aside(self, claim: RecoveryClaim, there: TopicDescription) -> RecoveryDocument | None:
        """Bring all that only the target has into the quarantine; `None` where both sides are alike."""
        known = await recollect(self.link.name, self.target)
        document = self._begun(known, there)
        self.on_step(f"{self.topic}: pausing")
        pause = PauseDocument(link=self.link.name, topic=self.topic, since_ms=now_ms())
        await claim.write(document, pause)
        logs = await self._quiet(there)
        self.on_step(f"{self.topic}: comparing both logs")
        both = replace(await self._both(), target_logs=logs)
        partitions = await both.compared(self.source, self.target)
        if not any(each.has_diverged for each in partitions):
            await claim.write(Deletion(document.key), *self._resumption(document))
            return None
        held = await positions.held_positions(self.target, self.topic)
        await positions.require_nobody(self.target, {each.group for each in held})
        self.on_step(f"{self.topic}: setting aside what only {self.target.cluster.alias} has")
        quarantine = self._quarantine(known, there)
        taken = 0
        for each in partitions:
            if each.head.begin < each.head.end or each.tail.begin < each.tail.end:
                await quarantine.open(there.partition_count, self.ledger.replication_factor)
                taken += await quarantine.take(each)
        self.on_step(f"{self.topic}: remembering where groups stand")
        held = await positions.held_positions(self.target, self.topic)
        await positions.require_nobody(self.target, {each.group for each in held})
        await self._require_unmoved(logs)
        document = replace(
            document,
            stage=RecoveryStage.REBUILDING,
            replication_factor=there.replication_factor,
            configs=rebuilding.configs_of(both, there),
            partitions=partitions,
            positions=held,
            quarantined=taken,
            at_ms=now_ms(),
        )
        await claim.write(document)
        return document

    def _begun(self, known: LinkMemory, there: TopicDescription) -> RecoveryDocument:
        before = known.documents.get(f"{RecoveryDocument.KIND}/{self.link.name}/{self.topic}")
        if (
            isinstance(before, RecoveryDocument)
            and before.topic_id == there.topic_id
            and before.stage != RecoveryStage.DONE
        ):
            return replace(before, stage=RecoveryStage.SETTING_ASIDE, by=operator(), at_ms=now_ms())
        return RecoveryDocument(
            link=self.link.name,
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage.SETTING_ASIDE,
            topic_id=there.topic_id,
            was_paused=self.topic in known.paused.topics,
            by=operator(),
            at_ms=now_ms(),
        )

    def _quarantine(self, known: LinkMemory, there: TopicDescription) -> Quarantine:
        identity = known.documents.get(f"{LinkDocument.KIND}/{self.link.name}")
        own = (identity.producer_id,) if isinstance(identity, LinkDocument) else ()
        return Quarantine(
            source=self.source,
            target=self.target,
            source_topic=self.source_topic,
            topic=self.topic,
            topic_id=there.topic_id,
            own_producers=own,
        )

    async def _quiet(self, there: TopicDescription) -> Mapping[int, LogRange]:
        """The target's logs, once no lane holds them and nobody has written to them for a while."""
        self.on_step(f"{self.topic}: waiting until nobody writes to it")
        deadline = time.monotonic() + max(self.timeout_s, self.quiet_s)
        before, quiet_from = await self._logs(there), time.monotonic()
        while True:
            known = await recollect(self.link.name, self.target)
            held, logs = self._is_held(known), await self._logs(there)
            if logs != before or held:
                quiet_from = time.monotonic()
            is_open = [partition for partition, log in logs.items() if log.stable_end < log.end]
            if not is_open and not held and time.monotonic() - quiet_from >= self.quiet_s:
                return logs
            if time.monotonic() > deadline:
                # In a log that grows the end is read a moment after the stable one.
                raise self._not_quiet(known, held=held, is_open=is_open if logs == before else [])
            before = logs
            await asyncio.sleep(LOOK_S)

    def _is_held(self, known: LinkMemory) -> bool:
        """Whether a lane of the link may still write to it."""
        silent_s = known.heard_age_s(now_ms())
        if known.controller_state(now_ms()) is not ControllerState.ALIVE and silent_s is not None and silent_s > GONE_S:
            return False
        return is_writing(known, lambda topic: topic == self.topic)

    def _not_quiet(self, known: LinkMemory, *, held: bool, is_open: list[int]) -> GateNotMet:
        alias = self.target.cluster.alias
        if held:
            is_alive = known.controller_state(now_ms()) is ControllerState.ALIVE
            return GateNotMet(
                f"link {self.link.name} has not let go of {self.topic} within {self.timeout_s:g} s",
                hint="isthmus status says what its controller does; then give the command again."
                if is_alive
                else f"Its controller was killed: give the command again in {GONE_S:g} s.",
            )
        if is_open:
            return GateNotMet(
                f"a transaction is open in {self.topic}-{is_open[0]} of {alias}",
                hint=f"isthmus cluster topics {alias} names it; end its producer, and give the command again.",
            )
        return self._moved()

    def _moved(self) -> GateNotMet:
        return GateNotMet(
            f"somebody writes to {self.topic} of {self.target.cluster.alias}",
            hint="Stop the producers there, or keep them out (isthmus namespace update --enforce, or deny WRITE); then "
            "give the command again. Nothing was deleted.",
        )

    async def _require_unmoved(self, before: Mapping[int, LogRange]) -> None:
        found = await log_ranges(self.target, [(self.topic, partition) for partition in before])
        for error in found.errors.values():
            raise error
        if any(log.end != before[partition].end for (_, partition), log in found.values.items()):
            raise self._moved()

    async def _logs(self, there: TopicDescription) -> dict[int, LogRange]:
        found = await log_ranges(self.target, [(self.topic, number) for number in range(there.partition_count)])
        for error in found.errors.values():
            raise error
        return {partition: log for (_, partition), log in found.values.items()}

    # From its deletion on

    async def _rebuild(self, claim: RecoveryClaim, document: RecoveryDocument) -> RecoveryDocument:
        both = await self._both()
        if both.target is not None and both.target.topic_id == document.topic_id:
            await self._require_unmoved({each.partition: _ended_at(each.target_end) for each in document.partitions})
            self.on_step(f"{self.topic}: deleting")
            await rebuilding.delete(self.target, self.topic, document.topic_id)
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
        await claim.write(document, *self._resumption(document))
        return document

    def _resumption(self, document: RecoveryDocument) -> list[Deletion]:
        """What has lanes run again, unless an operator had paused the topic before."""
        pause = PauseDocument(link=self.link.name, topic=self.topic, since_ms=0)
        return [] if document.was_paused else [Deletion(pause.key)]

    async def _refilled(self, claim: RecoveryClaim, document: RecoveryDocument) -> TopicRecovery:
        """Put groups back where they stood, as soon as that is there again."""
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
        deadline = time.monotonic() + self.timeout_s
        while True:
            found = await log_ranges(self.target, [(self.topic, partition) for partition in ends])
            logs = {partition: log.end for (_, partition), log in found.values.items()}
            if all(logs.get(partition, -1) >= end for partition, end in ends.items()):
                return
            known = await recollect(self.link.name, self.target)
            is_run = known.controller_state(now_ms()) is ControllerState.ALIVE
            is_paused = known.paused.covers(self.topic)
            if not is_run or is_paused or time.monotonic() > deadline:
                raise self._not_refilled(wanted, is_run=is_run, is_paused=is_paused)
            await asyncio.sleep(LOOK_S)

    def _not_refilled(self, wanted: tuple[RestoredPosition, ...], *, is_run: bool, is_paused: bool) -> GateNotMet:
        groups = sorted({each.group for each in wanted})
        more = f" and {len(groups) - _NAMED_MAX} more" if len(groups) > _NAMED_MAX else ""
        first = "Run the link: isthmus run" if not is_run else "It is being filled"
        if is_paused:
            first = f"It is paused: isthmus resume {self.link.name}, with --topic {self.topic} or without"
        return GateNotMet(
            f"{self.topic} is there again and waits to be filled; then groups are put back: "
            f"{', '.join(groups[:_NAMED_MAX])}{more}",
            hint=f"{first}; then give the command again, which does what is left.",
        )

    # Everywhere

    async def _both(self) -> BothTopics:
        return await both_topics(self.source, self.target, self.source_topic, self.topic)

    async def _document(self) -> RecoveryDocument | None:
        known = await recollect(self.link.name, self.target)
        found = known.documents.get(f"{RecoveryDocument.KIND}/{self.link.name}/{self.topic}")
        return found if isinstance(found, RecoveryDocument) else None

    def _told(self, document: RecoveryDocument) -> TopicRecovery:
        return TopicRecovery(
            topic=self.topic,
            source_topic=self.source_topic,
            stage=RecoveryStage(document.stage),
            partitions=document.partitions,
            quarantine=quarantine_of(self.topic) if document.quarantined else "",
            quarantined=document.quarantined,
            positions=positions.foreseen(document.positions, document.partitions),
        )


def _ended_at(end: int) -> LogRange:
    return LogRange(0, end, end)


def _is_under_way(document: RecoveryDocument, there: TopicDescription | None) -> bool:
    """Whether a recovery has come so far that the ledger, not the target's logs, says how to go on."""
    if document.stage not in _IRREVOCABLE:
        return False
    if document.stage == RecoveryStage.REFILLING:
        return there is not None and there.topic_id == document.rebuilt_id
    return there is None or there.topic_id != document.topic_id
