"""Recover topics whose source lost records (unclean leader election) automatically, where the link says so."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from isthmus.errors import ConfigError, IsthmusError
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import RecoveryDocument
from isthmus.memory.links import recollect
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.links.recovery import RecoveryStage, TopicRecovery
from isthmus.model.links.remedies import SOURCE_RECREATED
from isthmus.model.naming import TargetTopic
from isthmus.recovery.links import LinkRecoverer
from isthmus.topics.sourcedeletion import Departures

AGAIN_S: Final = 30.0
"""The interval until a topic that stays as it is, or whose recovery failed, is looked at again."""
LATER_S: Final = 600.0
"""The interval for a topic that others have written to: longer, as each look pauses the topic."""
_QUIET_S: Final = 2.0
_TIMEOUT_S: Final = 60.0
_log = logging.getLogger(__name__)


class SelfRecovery:
    """Does what `isthmus link recover` does for topics that are DIVERGED, of links with `on_divergence: recover`, and
    continues recoveries that were interrupted. It does the same for a topic that was created again at the source,
    unless many were at once: then the source was perhaps set up again.

    Other causes that stop a topic are left to operators: clients that write to the target would lose records by it. So
    are topics that others than the link have written to, whatever their state.
    """

    def __init__(self) -> None:
        self._looked: set[str] = set()
        self._begun: set[tuple[str, TargetTopic]] = set()
        self._tried: dict[tuple[str, TargetTopic], float] = {}
        self._left: dict[tuple[str, TargetTopic], float] = {}

    async def keep(
        self,
        links: Callable[[], Iterable[Link]],
        progress: Callable[[], Iterable[LinkProgress]],
        ledger: LedgerSettings,
    ) -> None:
        """Recover what is due, one topic after the other. Failures are logged, and retried; nothing is raised.

        Which `links` are run is read again for each topic, and before it is deleted: a recovery takes minutes, in which
        operators change them. The `progress` of links is read only where it matters.
        """
        chosen = list(_links_with_recovery(links()))
        # Another process may run it meanwhile.
        self._looked &= {link.name for link in chosen}
        known = {each.link: each for each in progress()} if chosen else {}
        for link in chosen:
            if link.name in known:
                async with ClientSession() as session:
                    await self._look(link, session)
                    for topic in self._due(link.name, known[link.name]):
                        await self._recover(link.name, session, topic, links, ledger)

    async def _look(self, link: Link, session: ClientSession) -> None:
        """Read once which recoveries a former controller has begun: they are paused, and show no divergence."""
        if link.name in self._looked:
            return
        with contextlib.suppress(IsthmusError):
            documents = (await recollect(link.name, session.client(link.target))).documents.values()
            recoveries = RecoveryDocument.find_all(documents)
            self._begun.update((link.name, each.topic) for each in recoveries if each.stage != RecoveryStage.DONE)
            self._looked.add(link.name)

    def _due(self, link: str, progress: LinkProgress) -> list[TargetTopic]:
        diverged, now = set(diverged_topics(progress)), time.monotonic()
        begun = {topic for name, topic in self._begun if name == link}
        for key in [key for key in self._tried if key[0] == link and key[1] not in diverged | begun]:
            del self._tried[key]
        # A topic that is left alone shows for a moment as running, as its pause ends.
        due = {
            topic: max(held.get((link, topic), now) for held in (self._tried, self._left)) for topic in diverged | begun
        }
        return sorted(topic for topic, at in due.items() if now >= at)

    async def _recover(
        self,
        name: str,
        session: ClientSession,
        topic: TargetTopic,
        links: Callable[[], Iterable[Link]],
        ledger: LedgerSettings,
    ) -> None:
        def current() -> Link | None:
            return next((link for link in _links_with_recovery(links()) if link.name == name), None)

        if (link := current()) is None:
            return
        recoverer = LinkRecoverer(
            configuration=Configuration(clusters=(link.source, link.target), links=(link,), ledger=ledger),
            session=session,
            name=link.name,
            topics=(topic,),
            quiet_s=_QUIET_S,
            timeout_s=_TIMEOUT_S,
            on_step=lambda step: _log.info("link %s: recovering %s", link.name, step),
            current=current,
            only_own=True,
        )
        _log.warning("link %s: topic %s has diverged from its source, and is brought back", link.name, topic)
        # A failure may leave the topic paused: then its divergence does not show.
        self._begun.add((name, topic))
        try:
            (found,) = (await recoverer.recover()).topics
        except (IsthmusError, TimeoutError) as error:
            if isinstance(error, ConfigError):
                # The link does not select the topic any more.
                self._begun.discard((name, topic))
            _log.warning("link %s: topic %s cannot be brought back now: %s", link.name, topic, error)
        else:
            self._begun.discard((name, topic))
            self._tell(name, found)
        self._tried[name, topic] = time.monotonic() + AGAIN_S

    def _tell(self, name: str, found: TopicRecovery) -> None:
        """Report how a recovery ended."""
        if found.stage is None and any(each.has_diverged for each in found.partitions):
            _log.warning(
                "link %s: topic %s stays as it is, as another producer has written to it: an operator decides "
                "(isthmus link recover %s --topic %s sets those records aside and has the topic filled again)",
                name,
                found.topic,
                name,
                found.topic,
            )
            self._left[name, found.topic] = time.monotonic() + LATER_S
            return
        _log.warning(
            "link %s: topic %s is as its source again, from where the two parted: %d records are in quarantine",
            name,
            found.topic,
            found.quarantined,
        )


def _links_with_recovery(links: Iterable[Link]) -> Iterator[Link]:
    """Return the links that have `on_divergence: recover`."""
    return (link for link in links if link.on_divergence == "recover")


def diverged_topics(progress: LinkProgress) -> Iterator[TargetTopic]:
    """Yield the topics of a link with a partition that ended because its source lost records, and none because of other
    writers; and those whose source is another topic now, unless there are many of them.
    """
    recreated = [topic.topic for topic in progress.topics if is_made_anew(topic)]
    # A source that was set up again gets its topics one after the other.
    lost = sum(topic.state is LaneState.SOURCE_DELETED for topic in progress.topics)
    there = len(progress.topics) - lost - len(recreated)
    if Departures(there=there, gone=len(recreated), recent=0).is_usual:
        yield from recreated
    for topic in progress.topics:
        states = {partition.state for partition in topic.partitions}
        if LaneState.DIVERGED in states and LaneState.FOREIGN_WRITE not in states:
            yield topic.topic


def is_made_anew(topic: TopicProgress) -> bool:
    """Whether a topic has ended because its source was created again, and not its target."""
    found = topic.problem
    return topic.state is LaneState.TOPIC_RECREATED and found is not None and found.message == SOURCE_RECREATED
