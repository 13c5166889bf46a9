"""Topics whose source lost records (unclean leader election) are brought back by themselves, where the link says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from isthmus.control.recovery.links import LinkRecoverer
from isthmus.errors import IsthmusError
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.progress import LinkProgress

AGAIN_S: Final = 30.0
"""A topic that stays as it is, or whose recovery ended with an error, is looked at again so long after."""
_QUIET_S: Final = 2.0
_TIMEOUT_S: Final = 60.0
_log = logging.getLogger(__name__)


class SelfRecovery:
    """Does what `isthmus link recover` does for topics that are DIVERGED, of links that have `on_divergence: recover`.

    What else stops a topic is left to operators: somebody who writes to the target would be the one to lose by it.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tried: dict[tuple[str, TargetTopic], float] = {}

    async def keep(self, links: Iterable[Link], progress: Iterable[LinkProgress]) -> None:
        """Recover what is due, one topic after the other. What fails is told, and tried again; nothing is raised."""
        known = {each.link: each for each in progress}
        for link in links:
            if link.on_divergence == "recover" and link.name in known:
                for topic in self._due(link.name, known[link.name]):
                    await self._recover(link, topic)

    def _due(self, link: str, progress: LinkProgress) -> Collection[TargetTopic]:
        now, due = time.monotonic(), []
        diverged = set(diverged_topics(progress))
        for topic in sorted({each.topic for each in progress.topics}):
            tried = self._tried.get((link, topic))
            if topic not in diverged:
                self._tried.pop((link, topic), None)
            elif tried is None or now - tried >= AGAIN_S:
                due.append(topic)
        return due

    async def _recover(self, link: Link, topic: TargetTopic) -> None:
        recoverer = LinkRecoverer(
            configuration=replace(self._configuration, links=(link,), warnings=()),
            name=link.name,
            topics=(topic,),
            quiet_s=_QUIET_S,
            timeout_s=_TIMEOUT_S,
            on_step=lambda step: _log.info("link %s: recovering %s", link.name, step),
        )
        _log.warning("link %s: topic %s has diverged from its source, and is brought back", link.name, topic)
        try:
            (found,) = (await recoverer.recover()).topics
        except (IsthmusError, TimeoutError) as error:
            _log.warning("link %s: topic %s cannot be brought back: %s", link.name, topic, error)
        else:
            _log.warning(
                "link %s: topic %s is as its source again, from where the two parted: %d records are in quarantine",
                link.name,
                topic,
                found.quarantined,
            )
        self._tried[link.name, topic] = time.monotonic()


def diverged_topics(progress: LinkProgress) -> Iterator[TargetTopic]:
    """The topics of a link of which a partition has ended because its source lost records."""
    for topic in progress.topics:
        if any(partition.state is LaneState.DIVERGED for partition in topic.partitions):
            yield topic.topic
