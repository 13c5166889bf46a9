"""Delete a topic of the target because the source has deleted the one that it was made of.

That is the last copy: so it takes proof that the source's topic is gone, and that the target's holds nothing but that
copy. The source has to be the link's cluster; every broker of it has to report that it has no topic of that name, and
none with that id: no broker reports the latter of a topic that the link may not see. Every record at the target has to
be the link's own, by its producer. A topic without that proof is left as it is, with a message.

The deletion is announced in the ledger, by its single fenced writer. After that announcement everything is checked once
more, and whether the link still attaches the topic: see `recovery.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.kafka import codes
from isthmus.kafka.admin.topics import known_deleted
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.metadata import NO_TOPIC_ID, TopicMetadata
from isthmus.ledger.documents.kinds import DeletionDocument, Document, RecoveryDocument, TopicDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.links.claiming import RecoveryClaim, hold_claim
from isthmus.local.operator import operator
from isthmus.memory.links import LinkMemory, now_ms, read_ledger, recollect
from isthmus.memory.named import NamedLink
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import is_lone
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.recovery import RecoveryStage
from isthmus.model.loop import TOPICS_TASK
from isthmus.model.naming import TargetTopic
from isthmus.model.text.wording import format_count
from isthmus.recovery import positions, rebuilding
from isthmus.recovery.attachment import LinkAttachment
from isthmus.recovery.links import not_its_own
from isthmus.recovery.quarantine import committed_batches
from isthmus.recovery.quiet import OnStep, QuietTopic
from isthmus.recovery.sides import find_topic
from isthmus.topics.sourcedeletion import Departures

_RECENT_MS: Final = 3_600_000
_RECENT_ELSEWHERE_MS: Final = 24 * _RECENT_MS
"""The same by the clock of another host, which may be hours behind."""
DELETES: Final = "deletes a topic of"


class _Copy(NamedTuple):
    """The target's topic: what the ledger knows of it, and where its logs begin and end."""

    known: TopicDocument
    logs: Mapping[int, LogRange]

    @property
    def offsets(self) -> int:
        return sum(log.end - log.start for log in self.logs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleter:
    """Deletes one topic at the target of a link. `is_asked_for` means that an operator named it; else the link says so
    (`on_source_deleted: delete`), and only while not many topics go at once. `quiet_s` is for how long it must not have
    been written to.
    """

    link: Link
    attachment: LinkAttachment
    topic: TargetTopic
    is_asked_for: bool
    on_step: OnStep
    quiet_s: float = 2.0
    timeout_s: float = 60.0

    async def examine(self) -> _Copy | None:
        """Require that the topic may be deleted, its records included; return `None` where the target has none.

        :raises PlanRefused: The link does not attach it, it is not the link's alone, its source is not known to be
            deleted, it holds what the link did not write, or too many topics have gone at once.
        :raises GateNotMet: Clients are at work in it.
        :raises ClusterError: A cluster does not answer.
        """
        known = await self._require_permitted()
        there = await find_topic(self._target, self.topic)
        document = known.topics[self.topic]
        if there is None:
            return None
        if NO_TOPIC_ID in (document.target_topic_id, document.source_topic_id):
            raise PlanRefused(
                f"which topic {self.topic} was made of is known by its name alone",
                hint="Brokers give topics ids from Kafka 2.8 on. Delete it by hand, if it is not needed.",
            )
        if there.topic_id != document.target_topic_id:
            raise PlanRefused(
                f"topic {self.topic} of {self._target.cluster.alias} is not the one that was mirrored: it was "
                "created again",
                hint=self._forget_hint,
            )
        logs = await self._quiet.await_it(there)
        await self._require_own(known, logs)
        return _Copy(document, logs)

    async def delete(self, claim: RecoveryClaim, copy: _Copy) -> None:
        """Announce the deletion, and delete the topic if everything is still as it was found.

        :raises PlanRefused: As `examine`; or another process works on the link.
        :raises GateNotMet: As `examine`; or the topic was written to meanwhile.
        :raises ClusterError: A cluster does not answer.
        """
        document = DeletionDocument(
            link=self.link.name,
            topic=self.topic,
            source_topic=copy.known.source_topic,
            topic_id=copy.known.target_topic_id,
            source_topic_id=copy.known.source_topic_id,
            offsets=copy.offsets,
            is_asked_for=self.is_asked_for,
            by=operator(),
            at_ms=now_ms(),
        )
        while True:
            self.on_step(f"{self.topic}: deleting")
            await claim.write(document)
            known = await self._require_permitted()
            if known.topics[self.topic] != copy.known:
                raise GateNotMet(f"what is known of {self.topic} has changed meanwhile", hint="Try again.")
            await self._quiet.require_unmoved(copy.logs)
            if claim.is_held:
                # A process that stood still meanwhile checks everything again.
                break
        await rebuilding.delete(self._target, self.topic, copy.known.target_topic_id)
        await claim.write(replace(document, is_done=True, at_ms=now_ms()))

    # Requirements

    async def _require_permitted(self) -> LinkMemory:
        """Return the ledger's memory, if the link still attaches the topic and its source is known to have deleted
        it.
        """
        link = await self.attachment.link()
        memory = await read_ledger(self._target)
        # Records of other links count as well.
        known, documents = memory.of(link.name).copy(), memory.documents().values()
        document = known.topics.get(self.topic)
        if document is None or link.topics.target_of(document.source_topic) != self.topic or link.tree:
            raise PlanRefused(f"link {link.name} does not mirror topic {self.topic} any more: it is left as it is")
        if not self.is_asked_for:
            require_policy(link, known, document)
        problem = not_its_own(self.topic, link, documents)
        if problem is not None:
            raise PlanRefused(problem.message, hint=problem.hint)
        if any(LaneState(each.state).is_wrong for each in document.ended):
            raise PlanRefused(f"topic {self.topic} holds what its source never had", hint=self._forget_hint)
        if known.paused.covers(self.topic) or _is_recovered(self.topic, known.documents.values()):
            raise GateNotMet(f"topic {self.topic} is paused or being recovered", hint="It is deleted after that.")
        await self._require_gone(known, document)
        held = await positions.held_positions(self._target, self.topic)
        await positions.require_nobody(self._target, {each.group for each in held})
        return known

    async def _require_gone(self, known: LinkMemory, document: TopicDocument) -> None:
        """Require that every broker of the source reports it gone, and that not many topics have gone at once."""
        alias = self._source.cluster.alias
        if document.source_topic not in await known_deleted(
            self._source, {document.source_topic: document.source_topic_id}
        ):
            raise PlanRefused(
                f"not every broker of {alias} says that {document.source_topic} is gone",
                hint="A topic that came back under the name, or that a broker still has, keeps the target's.",
            )
        if self.is_asked_for:
            return
        mirrored = sorted({each.source_topic for each in known.topics.values()})
        shown = (await self._source.metadata(mirrored)).topics
        found = departures(known, shown, now_ms())
        went = format_count(found.gone + found.recent, "topic")
        what = f"{went} of link {known.link} went at {alias} and {found.there} are there"
        if replace(found, recent=0).is_usual and is_withheld(known, document):
            what = f"it went at {alias} together with many others of link {known.link}"
        elif found.is_usual:
            return
        elif not replace(found, recent=0).is_usual:
            # When most of them are back, those that are not are still withheld.
            await self._withhold(known, shown)
        raise PlanRefused(
            f"{what}: that many are not deleted without being asked",
            hint=f"See what became of {alias}. If it is meant: isthmus forget {known.link} {self.topic} "
            "--delete-at-target deletes this one; isthmus forget without that keeps it.",
        )

    async def _withhold(self, known: LinkMemory, shown: Mapping[str, TopicMetadata]) -> None:
        gone = (each for each in known.topics.values() if _is_gone(shown[each.source_topic]))
        withheld = [
            DeletionDocument(
                link=self.link.name,
                topic=each.target_topic,
                source_topic=each.source_topic,
                topic_id=each.target_topic_id,
                source_topic_id=each.source_topic_id,
                offsets=0,
                is_asked_for=False,
                is_withheld=True,
                by=operator(),
                at_ms=now_ms(),
            )
            for each in gone
            if not is_withheld(known, each)
        ]
        if withheld:
            await append_once(self._target, withheld, replication_factor=None)

    async def _require_own(self, known: LinkMemory, logs: Mapping[int, LogRange]) -> None:
        """Require that the link itself wrote every record of the topic."""
        own = set() if known.identity is None else {known.identity.producer_id}
        self.on_step(f"{self.topic}: reading the authors of its records")
        for partition, log in logs.items():
            span = OffsetRange(self.topic, partition, log.start, log.end)
            async with aclosing(committed_batches(self._target, span)) as batches:
                async for batch in batches:
                    if batch.producer_id not in own and not is_lone(batch.producer_id):
                        raise PlanRefused(
                            f"{self.topic}-{partition} holds a record at offset {batch.base_offset} that link "
                            f"{self.link.name} did not write, by producer {batch.producer_id}: it is kept",
                            hint=self._forget_hint,
                        )

    @property
    def _forget_hint(self) -> str:
        return f"isthmus forget {self.link.name} {self.topic} has the link forget it; the topic stays."

    @property
    def _source(self) -> Client:
        return self.attachment.source

    @property
    def _target(self) -> Client:
        return self.attachment.target

    @property
    def _quiet(self) -> QuietTopic:
        return QuietTopic(
            link=self.link,
            target=self._target,
            topic=self.topic,
            quiet_s=self.quiet_s,
            timeout_s=self.timeout_s,
            on_step=self.on_step,
        )


def require_policy(link: Link, known: LinkMemory, document: TopicDocument) -> None:
    """Require that the link deletes the topic by itself, as operators have set it by now.

    :raises PlanRefused: It does not.
    :raises GateNotMet: The task that does it is paused.
    """
    if link.on_source_deleted != "delete":
        raise PlanRefused(f"link {link.name} does not delete topics any more")
    if document.source_topic in link.topics.literals:
        raise PlanRefused(f"link {link.name} names {document.source_topic} (topics.include): its copy is kept")
    if known.paused.stops(TOPICS_TASK):
        raise GateNotMet(f"task {TOPICS_TASK} of link {link.name} is paused", hint="Topics are deleted after that.")


def is_withheld(known: LinkMemory, document: TopicDocument) -> bool:
    """Whether a topic, with these very ids, was seen to have gone with too many others."""
    withheld = DeletionDocument.find(known.documents, known.link, document.target_topic)
    return (
        withheld is not None
        and withheld.is_withheld
        and (withheld.topic_id, withheld.source_topic_id) == (document.target_topic_id, document.source_topic_id)
    )


async def admit(link: str, topics: Collection[TargetTopic], target: Client) -> None:
    """Let these topics, which the source has again, be deleted automatically like others if they go later.

    :raises ClusterError: The ledger cannot be read or written.
    """
    known = await recollect(link, target)
    back = [each for topic, each in known.topics.items() if topic in topics and is_withheld(known, each)]
    if back:
        keys = [DeletionDocument.key_of(link, each.target_topic) for each in back]
        await append_once(target, map(Deletion, keys), replication_factor=None)


def _is_gone(shown: TopicMetadata) -> bool:
    return shown.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION


def departures(known: LinkMemory, found: Mapping[str, TopicMetadata], at_ms: int) -> Departures:
    """Return how many topics of a link have gone, where its source shows those as `found` now. An announced deletion
    counts even if its end was not written down, unless the topic is one of those still to go. One announced by another
    host counts for a day, as clocks of hosts differ.
    """
    here = operator()
    mirrored = {each.source_topic: each.source_topic_id for each in known.topics.values()}
    there = [name for name, its_id in mirrored.items() if found[name].topic_id == its_id != NO_TOPIC_ID]
    gone = {name for name in mirrored if _is_gone(found[name])}
    recent = [
        each
        for each in DeletionDocument.find_all(known.documents.values())
        if not (each.is_asked_for or each.is_withheld)
        and each.source_topic not in gone
        and each.at_ms > at_ms - (_RECENT_MS if each.by == here else _RECENT_ELSEWHERE_MS)
    ]
    return Departures(there=len(there), gone=len(gone), recent=len(recent))


async def delete_departed(
    one: NamedLink, topics: Collection[str], *, dry_run: bool = False, on_step: OnStep = lambda _: None
) -> None:
    """Delete topics at the target of a link, named as there, whose source topics were deleted, by an operator's
    request. With `dry_run` it is only checked whether they may be deleted.

    :raises ConfigError: There is no such link, no topic is named, or the link never mirrored one of them.
    :raises PlanRefused: See `TopicDeleter`; or another process works on the link.
    :raises GateNotMet: Clients are at work in one of them.
    :raises ClusterError: A cluster does not answer.
    """
    if not topics:
        raise ConfigError("no topics to delete are named", hint="Name them: they are deleted for good.")
    name, link, target = one.name, one.link, one.target
    source = one.session.client(link.source)
    attachment = LinkAttachment(current=lambda: one.link, name=name, source=source, target=target)
    known = (await recollect(name, target)).topics
    for topic in map(TargetTopic, sorted(set(topics))):
        if topic not in known:
            raise ConfigError(
                f"link {name} never mirrored topic {topic}", hint="isthmus status shows the topics that it mirrors."
            )
        deleter = TopicDeleter(link=link, attachment=attachment, topic=topic, is_asked_for=True, on_step=on_step)
        copy = await deleter.examine()
        if copy is not None and not dry_run:
            async with hold_claim(target, name, one.configuration.ledger, does=DELETES) as claim:
                await deleter.delete(claim, copy)


def _is_recovered(topic: TargetTopic, documents: Collection[Document]) -> bool:
    recoveries = RecoveryDocument.find_all(documents)
    return any(each.topic == topic and each.stage != RecoveryStage.DONE for each in recoveries)
