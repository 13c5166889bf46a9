"""`isthmus link recover`: find the topics of a link that have diverged, and recover them one after the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document, PartedDocument, RecoveryDocument, TopicDocument
from isthmus.links.claiming import hold_claim
from isthmus.memory.claims import Claims
from isthmus.memory.links import read_ledger, rebuilt_topics
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.recovery import Recovery, RecoveryStage, RecoveryWay, TopicRecovery
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.recovery.attachment import LinkAttachment
from isthmus.recovery.parting import require_mappable
from isthmus.recovery.quiet import OnStep
from isthmus.recovery.recovery import TopicRecoverer
from isthmus.topics.foresight import Foreseen, foresee


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecoverer:
    """Recovers topics of one link, those named (as at the source or as at the target) or all that have diverged.

    The source leads: records that only the target has go into quarantine where the topic is rebuilt; where it continues
    mapped they stay, and go there as well with `sets_aside`. `way` is how, `None` for the way in which a topic was
    begun, or else `RecoveryWay.REBUILD`. `configuration` has the declared links too. `quiet_s` is for how long the
    target must not have been written to, `timeout_s` how long any wait may take.

    `current` returns the link as it is by now, by default only what its clusters know of it. With `only_own` a topic
    that others than the link have written to is left alone.
    """

    configuration: Configuration
    session: ClientSession
    name: str
    topics: Collection[str] = ()
    way: RecoveryWay | None = None
    sets_aside: bool = False
    quiet_s: float = 2.0
    timeout_s: float = 60.0
    on_step: OnStep = lambda _: None
    current: Callable[[], Link | None] | None = None
    only_own: bool = False

    async def recover(self, *, dry_run: bool = False) -> Recovery:
        """Bring the topics back to what the source holds, or let them continue behind what only the target has. With
        `dry_run` only report what was found.

        :raises ConfigError: There is no such link, or it does not mirror one of the topics.
        :raises GateNotMet: Clients are at work at the target, lanes do not end, or a topic is not refilled in time.
        :raises PlanRefused: Another process recovers the link, it is detached, a cluster is another one, offsets of a
            topic are mapped, or cannot be.
        :raises ClusterError: A cluster does not answer; a repeated call continues.
        """
        link = self.configuration.link(self.name)
        async with AsyncExitStack() as stack:
            source, target = self.session.client(link.source), self.session.client(link.target)
            claim = None
            if not dry_run:
                # Before anything is looked at: else changes of other processes would be found half-way.
                claim = await stack.enter_async_context(
                    hold_claim(target, link.name, self.configuration.ledger, term_s=self.timeout_s)
                )
            attachment = LinkAttachment(
                current=self.current or (lambda: self.configuration.link(self.name)),
                name=self.name,
                source=source,
                target=target,
            )
            link = await attachment.link()
            self.on_step("looking for topics that have diverged")
            found: list[TopicRecovery] = []
            for topic, source_topic in sorted((await self._choose_topics(link)).items()):
                if self.way is RecoveryWay.MAPPED:
                    await require_mappable(link, self.session, self.configuration.clusters, topic, source_topic)
                recoverer = self._recoverer(link, attachment, topic, source_topic)
                found.append(await (recoverer.foresee() if claim is None else recoverer.recover(claim)))
        return Recovery(link=link.name, topics=tuple(found), is_dry_run=dry_run)

    def _recoverer(
        self, link: Link, attachment: LinkAttachment, topic: TargetTopic, source_topic: SourceTopic
    ) -> TopicRecoverer:
        return TopicRecoverer(
            link=link,
            attachment=attachment,
            source=attachment.source,
            target=attachment.target,
            topic=topic,
            source_topic=source_topic,
            ledger=self.configuration.ledger,
            quiet_s=self.quiet_s,
            timeout_s=self.timeout_s,
            on_step=self.on_step,
            way=self.way,
            sets_aside=self.sets_aside,
            only_own=self.only_own,
        )

    async def _choose_topics(self, link: Link) -> dict[TargetTopic, SourceTopic]:
        """Return the topics to recover, by their names at the target."""
        memory = await read_ledger(self.session.client(link.target))
        documents, known = memory.documents(), memory.of(link.name).copy()
        if self.topics:
            chosen = dict(self._find_named(link))
            for topic in chosen:
                problem = not_its_own(topic, link, documents.values(), self.way)
                if problem is not None:
                    raise PlanRefused(problem.message, hint=problem.hint)
            return chosen
        foreseen = await foresee(link, self.session, Claims(), self.configuration.links, self.configuration.clusters)
        chosen = dict(_find_diverged(foreseen))
        former = {ids.former for ids in rebuilt_topics(link.name, known.documents).values()}
        for document in known.documents.values():
            if isinstance(document, RecoveryDocument) and document.stage != RecoveryStage.DONE:
                chosen[document.topic] = document.source_topic
            elif isinstance(document, TopicDocument) and _has_ended(document, former):
                chosen[document.target_topic] = document.source_topic
        for topic in list(chosen):
            problem = not_its_own(topic, link, documents.values(), self.way)
            if problem is not None or link.topics.target_of(chosen[topic]) != topic:
                del chosen[topic]
            if problem is not None:
                self.on_step(f"{problem.message}: it is left as it is")
        return chosen

    def _find_named(self, link: Link) -> Iterator[tuple[TargetTopic, SourceTopic]]:
        for name in self.topics:
            topic = link.topics.find_target(name)
            source_topic = None if topic is None else link.topics.source_of(topic)
            if topic is None or source_topic is None:
                raise ConfigError(
                    f"link {link.name} does not mirror topic {name}",
                    hint="isthmus plan shows which topics a link mirrors.",
                )
            yield topic, source_topic


def not_its_own(
    topic: TargetTopic, link: Link, documents: Iterable[Document], way: RecoveryWay | None = None
) -> Problem | None:
    """Return why a target topic is not the link's alone, so that it is not deleted, or `None`; a topic that does not
    have the source's offsets cannot diverge from them.
    """
    documents = tuple(documents)
    of_topic = [each for each in TopicDocument.find_all(documents) if each.target_topic == topic]
    others = [each.link for each in of_topic if each.link != link.name]
    if others:
        return Problem(
            f"link {others[0]} has written topic {topic} too",
            f"Take the topic from one of the two links; if that one is run no more: isthmus forget {others[0]} "
            f"--at {link.target.alias}.",
        )
    own = next((each for each in of_topic if each.link == link.name), None)
    if own is not None and _goes_on(own, documents):
        begun = _begun_way(topic, link, documents) if way is None else way
        return (
            None
            if begun is not None
            else Problem(
                f"topic {topic} goes on with mapped offsets since both sides had parted",
                "--way rebuild sets aside the records that only the target has, and has the topic filled again with "
                "the source's offsets.",
            )
        )
    policy = link.topics.offsets
    if policy is OffsetPolicy.MAPPED or (own is None and policy is OffsetPolicy.AUTO) or (own and own.is_mapped):
        return Problem(
            f"offsets of topic {topic} are mapped, so others may write there"
            if policy is OffsetPolicy.MAPPED or own
            else f"the link has not begun topic {topic}, and may map its offsets (topics.offsets: auto)",
            f"To copy {topic} again, give it another name at the target (topics.naming): the topic keeps its records.",
        )
    return None


def _goes_on(own: TopicDocument, documents: Iterable[Document]) -> bool:
    """Whether an operator let a topic continue with mapped offsets, as it is now."""
    parted = PartedDocument.find_all(documents, own.link)
    return any((each.topic, each.target_topic_id) == (own.target_topic, own.target_topic_id) for each in parted)


def _begun_way(topic: TargetTopic, link: Link, documents: Iterable[Document]) -> RecoveryWay | None:
    """Return the way in which a recovery was begun that is not done."""
    found = RecoveryDocument.find_all(documents, link.name)
    return next((each.way for each in found if each.topic == topic and each.stage != RecoveryStage.DONE), None)


def _find_diverged(foreseen: Foreseen) -> Iterator[tuple[TargetTopic, SourceTopic]]:
    for topic in foreseen.plan.topics:
        if any(state.is_recoverable for state in (topic.state, *topic.states)):
            yield topic.topic, topic.source_topic


def _has_ended(document: TopicDocument, former: Collection[uuid.UUID]) -> bool:
    """Whether a run has stopped for the topic, as it is now: states of one that was deleted since do not count."""
    states = {document.state, *(each.state for each in document.ended)}
    return document.target_topic_id not in former and any(s.is_recoverable for s in LaneState if s in states)
