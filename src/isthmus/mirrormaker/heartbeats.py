"""Heartbeats as MirrorMaker 2 emits them: into topic `heartbeats` of the target, now and again."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.internal_topics import InternalTopics, is_missing
from isthmus.kafka.transactions.appending import CurrentAppender
from isthmus.loops.loop import LinkView
from isthmus.memory.links import now_ms
from isthmus.model.kafka.mirrormaker_records import Heartbeat
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.mirrormaker import HEARTBEATS


class HeartbeatLoop:
    """Writes the heartbeats of one link.

    Tools recognize the origin of topics by names alone: by `east.heartbeats`, a mirror of the source's topic. Where the
    source has no heartbeats that mirror is created here, and left empty until they come.
    """

    name = "mm2-heartbeats"

    def __init__(self) -> None:
        self._topics = InternalTopics(self.name)
        self._appender = CurrentAppender()

    def interval_s(self, link: Link) -> float | None:
        """How often a heartbeat is written, in seconds."""
        return link.mm2.heartbeats_interval_s if link.mm2.heartbeats else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the topics that are missing at the target.

        :raises ClusterError: A cluster cannot be asked.
        """
        changes = await self._topics.look(view.target, HEARTBEATS)
        return (*changes, *await self._find_mirrored(view))

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Create the missing topics, and write a heartbeat.

        :raises ClusterError: The target rejects it.
        """
        left = await self._topics.create(view.target, changes)
        if is_missing(HEARTBEATS, left):
            return left
        beat = Heartbeat(view.link.source.alias, view.link.target.alias, now_ms())
        try:
            await self._appender.to(view.target, HEARTBEATS).append([beat.record], now_ms=beat.timestamp)
        except ClusterError:
            self._topics.doubt()
            raise
        return left

    async def aclose(self) -> None:
        """Close the connection."""
        self._appender.close()

    async def _find_mirrored(self, view: LinkView) -> Sequence[Change]:
        """Return the mirror of the heartbeats to create if the source has no heartbeats."""
        topics, name = view.link.topics.mirror_maker, view.link.mm2_names.mirrored_heartbeats
        if topics is None or not topics.heartbeats:
            return ()
        changes = await self._topics.look(view.target, name)
        if not changes or changes[0].before is not None:
            # The mirror exists, and is as the source has it.
            return ()
        known = (await view.source.metadata([HEARTBEATS])).topics[HEARTBEATS]
        return changes if known.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION else ()
