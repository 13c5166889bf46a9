"""The topics of a link, and those among them that return: copies of the target's own topics at the source, under
whatever names. Group positions on them go home.

`X.orders` at Y is made of `orders` at X by a link from X to Y. A link from Y to X that carries a group turns its
position on `X.orders` into the one on `orders`, by the records of the link from X in the ledger at Y. So consumers of
a super topic (`.*orders`) go over and come back, and over several clusters hop by hop.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isthmus.errors import NotAuthorized, PlanRefused
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.mirrored import ended_partitions, mirrored_topics
from isthmus.groups.positions.translation import TargetPosition, Translation, by_offset, by_time
from isthmus.kafka.client import Client
from isthmus.lanes.maps import LinkMaps, gapless_from
from isthmus.ledger.maps import LaneMap
from isthmus.memory.links import LedgerMemory
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic


class ReturningTopics:
    """The copies that links from the target to the source have made of the target's topics.

    `topics` maps topics of the source to those of the target that they are copies of, `ended` are partitions of the
    source that are copies no more.
    """

    def __init__(self, source: Client, target: Client) -> None:
        self.topics: Mapping[SourceTopic, TargetTopic] = {}
        self.ended: frozenset[SourceTopicPartition] = frozenset()
        self._copies: Mapping[TargetTopic, SourceTopic] = {}
        self._maps: dict[SourceTopic, LinkMaps] = {}
        self._source, self._target = source, target
        self._ledger = source.companion(LedgerMemory)

    async def refresh(self) -> None:
        """Find out which topics there are; none where the ledger at the source may not be read.

        :raises ClusterError: A cluster does not answer.
        """
        topics: dict[SourceTopic, TargetTopic] = {}
        ended: set[SourceTopicPartition] = set()
        maps: dict[SourceTopic, LinkMaps] = {}
        with contextlib.suppress(NotAuthorized, PlanRefused):
            await self._ledger.refresh()
            here = (await self._target.metadata()).cluster_id
            for known in map(self._ledger.of, self._ledger.links):
                identity = known.identity
                if identity is None or identity.source_cluster_id != here:
                    continue
                made = await mirrored_topics(known.link, known.documents, self._target, self._source)
                back = {SourceTopic(copy): TargetTopic(original) for original, copy in made.items()}
                topics.update(back)
                gone = ended_partitions(known.link, known.documents)
                ended |= {(SourceTopic(made[topic]), partition) for topic, partition in gone if topic in made}
                maps.update(dict.fromkeys(back, LinkMaps(known.link, known.documents)))
        self.topics, self.ended, self._maps = topics, frozenset(ended), maps
        self._copies = {original: copy for copy, original in topics.items()}

    async def look(self) -> None:
        """Read the maps again: they are written a moment after the records.

        :raises ClusterError: The source does not answer.
        """
        if any(map(self._is_mapped, self._maps)):
            with contextlib.suppress(NotAuthorized, PlanRefused):
                await self._ledger.refresh()
        for maps in {id(maps): maps for maps in self._maps.values()}.values():
            maps.look()

    def is_mapped(self, original: TargetTopic) -> bool:
        """Whether a topic of the target has other offsets than its copy at the source."""
        copy = self._copies.get(original)
        return copy is not None and self._is_mapped(copy)

    def _is_mapped(self, copy: SourceTopic) -> bool:
        # The link that copies back has its target here.
        return self._maps[copy].is_mapped(TargetTopic(copy))

    def translation(self, wanted: Iterable[TargetPosition]) -> Translation:
        """Translate positions on copies at the source into positions on the target's own topics."""
        found = Translation()
        for at in wanted:
            (original, partition), position = at
            copy = self._copies[original]
            if not self._is_mapped(copy):
                found.offsets[at] = position
                continue
            lane = self._maps[copy].of((TargetTopic(copy), partition))
            home = None if lane is None else home_position(lane, position)
            if home is None or lane is None:
                found.untold[at] = Standing.WAITING_FOR_MAP
                continue
            found.offsets[at] = home
            if position > lane.cursor.target_offset:
                # More records may have been copied than the map has yet.
                found.unreached.add(at)
        return found


@dataclass(frozen=True, slots=True)
class TopicPaths:
    """The topics of a link. `mirrored` maps those of the source to those of the target: those that the link copies, and
    those that came from the target as copies, whose originals are `home`.
    """

    mirrored: Mapping[SourceTopic, TargetTopic]
    maps: LinkMaps
    returning: ReturningTopics
    home: frozenset[TargetTopic] = frozenset()

    @property
    def mapped(self) -> frozenset[TargetTopic]:
        """The topics of the target whose offsets differ from those at the source."""
        return frozenset(
            topic
            for topic in self.mirrored.values()
            if (self.returning.is_mapped(topic) if topic in self.home else self.maps.is_mapped(topic))
        )

    async def translation(
        self, settings: GroupSettings, wanted: Collection[TargetPosition], source: Client, target: Client
    ) -> Translation:
        """Translate positions at the source into positions at the target.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        back = {at for at in wanted if at[0][0] in self.home}
        asked = set(wanted) - back
        found = self.returning.translation(back)
        if settings.way == "timestamp":
            timed = asked
        else:
            # Another program copied the records there: their times show where to.
            timed = {at for at in asked if settings.way == "mapped" and self.maps.is_before(*at)}
            found |= by_offset(settings, asked - timed, self.maps)
        if timed:
            found.offsets |= await by_time(settings, timed, self.mirrored, source, target)
        return found


def home_position(lane: LaneMap, position: int) -> int | None:
    """Translate a position on the copy into one in the original; `None` where the map does not have it.

    It is never above the first record of the original whose copy lies at or behind the position.
    """
    first = lane.offsets.first_source(position)
    known_from, ranges = gapless_from(lane.segments), lane.offsets.ranges
    begin = ranges[0].target_begin if ranges else lane.cursor.target_offset
    if (lane.cursor.continues_another or lane.is_trimmed) and position < begin:
        # Another program copied the records there, or they are deleted by now, and their origin is unknown.
        return None
    before = bisect_right(ranges, position, key=lambda one: one.target_begin) - 1
    is_inside = before >= 0 and position < ranges[before].target_end
    if known_from and not is_inside and (before < 0 or ranges[before].source_begin < known_from):
        # A lost segment of the map may have had records at or behind the position.
        return None
    return lane.cursor.source_offset if first is None else first
