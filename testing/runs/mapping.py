"""Mapped lanes in tests: a ledger that remembers when it is told to, and a look at both logs by librdkafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isthmus.engine.engine import Engine
from isthmus.engine.mapped.places import Known
from isthmus.engine.mapped.transit import Transit
from isthmus.model.lane import Lane, LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor, Departure
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange, OffsetMap
from testing.records import oracle
from testing.records.oracle import Seen
from testing.records.topics import Brokers


class Maps:
    """What is remembered of mapped lanes: as old as the last `note`, or as what a lane itself wrote down since."""

    def __init__(self) -> None:
        self.cursors: dict[LaneKey, Cursor] = {}
        self.ranges: dict[LaneKey, list[MappedRange]] = {}
        self.final: frozenset[LaneKey] = frozenset()

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        keys = [lane.key for lane in lanes]
        return {
            key: Known(self.cursors[key], self.cursors[key].ordinal, is_final=key in self.final)
            for key in keys
            if key in self.cursors
        }

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        self.cursors.update((lane.key, cursor) for lane, cursor in cursors.items())
        self.final -= {lane.key for lane in cursors}

    async def save(self, transits: Mapping[LaneKey, Transit], *, term_s: float) -> None:
        self.cursors.update((key, transit.cursor) for key, transit in transits.items())

    async def depart(self, departures: Mapping[LaneKey, Departure]) -> None:
        raise AssertionError("tests of changed records write to a real ledger")

    def note(self, engine: Engine) -> None:
        """Remember how far the lanes are now."""
        self.final = engine.lanes.find_final(engine.lanes.transits())
        for key, transit in engine.lanes.transits().items():
            self.cursors[key] = transit.cursor
            self.ranges.setdefault(key, []).extend(transit.ranges)

    def of(self, topic: str) -> OffsetMap:
        """The map of the lane of a topic's first partition."""
        return OffsetMap.of(self.ranges.get(LaneKey(TargetTopic(topic), 0), ()))


def assert_mapped(
    source: Brokers,
    target: Brokers,
    source_topic: str,
    target_topic: str,
    offsets: OffsetMap,
    *,
    begin: int = 0,
) -> list[Seen]:
    """Every committed record of the source from `begin` on is at the target where the map says, in order, once.

    Returns what else the target holds.
    """
    (read,) = oracle.records(source.admin_bootstrap_servers, source_topic, "read_committed")
    wanted = [seen for seen in read if seen.offset >= begin]
    (there,) = oracle.records(target.admin_bootstrap_servers, target_topic, "read_uncommitted")
    held = {seen.offset: seen for seen in there}
    shifts = {
        offset: offset + one.shift for one in offsets.ranges for offset in range(one.source_begin, one.source_end)
    }
    assert set(shifts) == {seen.offset for seen in wanted}
    found = [held.pop(shifts[seen.offset]) for seen in wanted]
    oracle.assert_equal(
        [seen._replace(offset=copy.offset) for seen, copy in zip(wanted, found, strict=True)], found, target_topic
    )
    return list(held.values())
