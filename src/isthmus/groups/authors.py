"""The authors of the positions committed at a cluster: consumers, or distributors of the tree, and at which level."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.errors import NotAuthorized, PlanRefused
from isthmus.groups.counterparts import Counterparts
from isthmus.groups.plan import GroupPlan
from isthmus.groups.review import unsure_groups
from isthmus.kafka.client import Client
from isthmus.kafka.commits.table import NO_PRODUCER
from isthmus.kafka.groups.groups import Positions
from isthmus.ledger.documents.kinds import GroupDocument
from isthmus.memory.links import read_ledger
from isthmus.model.copyflags import bit
from isthmus.model.naming import SourceTopic, SourceTopicPartition
from isthmus.model.trees.positions import PositionKey, split_flags

Writers = Mapping[str, Mapping[SourceTopicPartition, int]]
"""By group and partition the producer in whose transaction a position was committed, as far as that is known."""


class CommitAuthors:
    """The authors of commits at the source of a distributor. `levels` are those of the distributors that copy there."""

    def __init__(self, source: Client, target: Client, levels: Mapping[str, int]) -> None:
        self._source = source
        self._levels = levels
        self._links = Counterparts(source, target, named=levels.keys())

    async def flags(
        self, known: Mapping[str, Positions[SourceTopic]], writers: Writers
    ) -> tuple[dict[PositionKey, int], dict[str, GroupPlan]]:
        """Return the copy flags of positions, where they have some; and the groups for which they are unknown now.

        They are in front of a position's metadata, or follow from its author in the log of commits; or, where the log
        does not reach back to it, from what the ledger of the source has of the last commits of distributors there.

        :raises ClusterError: The ledger of the source cannot be read.
        """
        producers = {name: set(found.values()) - {NO_PRODUCER} for name, found in writers.items()}
        unsure = await unsure_groups(self._links, producers, lambda name: name)
        sure = {name: found for name, found in known.items() if name not in unsure}
        silent = {name for name, found in sure.items() if found.keys() - writers[name].keys()}
        written = await self._read_committed_flags(silent)
        flags: dict[PositionKey, int] = {}
        for name, found in sure.items():
            for at, committed in found.items():
                key = PositionKey(name, *at)
                own = split_flags(committed.metadata)[1]
                if own:
                    flags[key] = own
                elif at in writers[name]:
                    level = self._levels.get(self._links.producers.get(writers[name][at], ""), 0)
                    flags[key] = bit(level) if level else 0
                else:
                    flags[key] = written.get((key, committed.offset), 0)
        return flags, unsure

    async def _read_committed_flags(self, groups: set[str]) -> dict[tuple[PositionKey, int], int]:
        """Read the flags of what distributors committed last, by position and offset, from the source's ledger."""
        if not groups:
            return {}
        try:
            documents = (await read_ledger(self._source)).documents().values()
        except (NotAuthorized, PlanRefused):
            return {}
        return {
            (PositionKey(document.group, SourceTopic(position.topic), position.partition), position.target): bit(
                self._levels[document.link]
            )
            for document in GroupDocument.find_all(documents)
            if document.group in groups and document.link in self._levels
            for position in document.positions
        }
