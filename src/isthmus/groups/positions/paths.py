"""The topic of the target that each topic of the source stands for, and the translation of positions on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from isthmus.groups.positions.translation import TargetPosition, Translation, translation
from isthmus.groups.returning import ReturningTopics
from isthmus.kafka.client import Client
from isthmus.lanes.maps import LinkMaps
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.naming import SourceTopic, TargetTopic


@dataclass(frozen=True, slots=True)
class TopicPaths:
    """The topics of a link. `mirrored` maps those of the source to those of the target: those that the link copies, and
    those that came from the target as copies, whose originals are `home`.
    """

    mirrored: Mapping[SourceTopic, TargetTopic]
    maps: LinkMaps
    returning: ReturningTopics
    home: frozenset[str] = frozenset()

    @property
    def mapped(self) -> frozenset[str]:
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
        found = await translation(settings, set(wanted) - back, self.mirrored, self.maps, source, target)
        home = self.returning.translation(back)
        found.offsets |= home.offsets
        found.unreached |= home.unreached
        found.untold |= home.untold
        return found
