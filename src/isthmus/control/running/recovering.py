"""Topics whose source lost records (unclean leader election) are brought back by themselves, where the link says so."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from isthmus.control.links.memory import recollect
from isthmus.control.recovery.links import LinkRecoverer
from isthmus.errors import ConfigError, IsthmusError
from isthmus.ledger.documents import RecoveryDocument
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.progress import LinkProgress
from isthmus.model.recovery import RecoveryStage
from isthmus.wire.client import Client

AGAIN_S: Final = 30.0
"""A topic that stays as it is, or whose recovery ended with an error, is looked at again so long after."""
_QUIET_S: Final = 2.0
_TIMEOUT_S: Final = 60.0
_log = logging.getLogger(__name__)


class SelfRecovery:
    """Does what `isthmus link recover` does for topics that are DIVERGED, of links that have `on_divergence: recover`,
    and goes on with recoveries that were interrupted.

    What else stops a topic is left to operators: somebody who writes to the target would be the one to lose by it.
    """

    def __init__(self) -> None:
        self._looked: set[str] = set()
        self._begun: set[tuple[str, TargetTopic]] = set()
        self._tried: dict[tuple[str, TargetTopic], float] = {}

    async def keep(
        self, links: Iterable[Link], progress: Callable[[], Iterable[LinkProgress]], ledger: LedgerSettings
    ) -> None:
        """Recover what is due, one topic after the other. What fails is told, and tried again; nothing is raised.

        How links do is asked only where it matters.
        """
        chosen = [link for link in links if link.on_divergence == "recover"]
        # Somebody else may run it meanwhile.
        self._looked &= {link.name for link in chosen}
        known = {each.link: each for each in progress()} if chosen else {}
        for link in chosen:
            if link.name in known:
                await self._look(link)
                for topic in self._due(link.name, known[link.name]):
                    await self._recover(link, topic, ledger)

    async def _look(self, link: Link) -> None:
        """Find out once what whoever ran the link before has begun: it is paused, and shows no divergence."""
        if link.name in self._looked:
            return
        with contextlib.suppress(IsthmusError):
            async with Client(link.target) as target:
                documents = (await recollect(link.name, target)).documents.values()
            recoveries = [each for each in documents if isinstance(each, RecoveryDocument)]
            self._begun.update((link.name, each.topic) for each in recoveries if each.stage != RecoveryStage.DONE)
            self._looked.add(link.name)

    def _due(self, link: str, progress: LinkProgress) -> list[TargetTopic]:
        diverged, now = set(diverged_topics(progress)), time.monotonic()
        begun = {topic for name, topic in self._begun if name == link}
        for key in [key for key in self._tried if key[0] == link and key[1] not in diverged | begun]:
            del self._tried[key]
        return [topic for topic in sorted(diverged | begun) if now >= self._tried.get((link, topic), now)]

    async def _recover(self, link: Link, topic: TargetTopic, ledger: LedgerSettings) -> None:
        recoverer = LinkRecoverer(
            configuration=Configuration(clusters=(link.source, link.target), links=(link,), ledger=ledger),
            name=link.name,
            topics=(topic,),
            quiet_s=_QUIET_S,
            timeout_s=_TIMEOUT_S,
            on_step=lambda step: _log.info("link %s: recovering %s", link.name, step),
        )
        _log.warning("link %s: topic %s has diverged from its source, and is brought back", link.name, topic)
        # Whatever keeps it from being done may leave the topic paused: then nothing shows that it has diverged.
        self._begun.add((link.name, topic))
        try:
            (found,) = (await recoverer.recover()).topics
        except (IsthmusError, TimeoutError) as error:
            if isinstance(error, ConfigError):
                # The link does not select it any more.
                self._begun.discard((link.name, topic))
            _log.warning("link %s: topic %s cannot be brought back now: %s", link.name, topic, error)
        else:
            self._begun.discard((link.name, topic))
            _log.warning(
                "link %s: topic %s is as its source again, from where the two parted: %d records are in quarantine",
                link.name,
                topic,
                found.quarantined,
            )
        self._tried[link.name, topic] = time.monotonic() + AGAIN_S


def diverged_topics(progress: LinkProgress) -> Iterator[TargetTopic]:
    """The topics of a link of which a partition has ended because its source lost records."""
    for topic in progress.topics:
        if any(partition.state is LaneState.DIVERGED for partition in topic.partitions):
            yield topic.topic
