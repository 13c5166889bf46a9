"""Which record of the target is which of the source's, for lanes whose offsets differ: told by ids and their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple


class Standing(NamedTuple):
    """A record with an id, and where it stands."""

    offset: int
    id: str | None


class Pairing:
    """The records of a source and where they are at the target, each once.

    `visible` are the source's offsets that consumers of committed data see, `end` where it ends, `acked` the ids of
    records that it may have deleted since.
    """

    def __init__(
        self,
        source: Iterable[Standing],
        target: Iterable[Standing],
        *,
        visible: Iterable[int],
        acked: Mapping[int, str],
        end: int,
    ) -> None:
        places: dict[str, set[int]] = defaultdict(set)
        for offset, each in acked.items():
            places[each].add(offset)
        for record in source:
            if record.id is not None:
                places[record.id].add(record.offset)
        # What stands at the source twice comes in that order.
        left = {each: deque(sorted(offsets)) for each, offsets in places.items()}
        self.pairs = tuple(
            (record.offset, left[record.id].popleft(), record.id)
            for record in target
            if record.id is not None and left.get(record.id)
        )
        self._end = end
        self._targets = [there for there, _, _ in self.pairs]
        here = [offset for _, offset, _ in self.pairs]
        self._sources = sorted(here)
        self._reached = list(accumulate((offset + 1 for offset in here), max))
        self._following = list(accumulate(reversed(here), min))[::-1]
        self._wanted = sorted({*here, *visible})

    @property
    def offsets(self) -> frozenset[int]:
        """The offsets of the source whose records are at the target."""
        return frozenset(self._sources)

    @property
    def first(self) -> int:
        """The first of them, the end of the source for none."""
        return self._sources[0] if self._sources else self._end

    def copied_before(self, end: int) -> int:
        """One more than the last offset of the source, before `end`, whose record is at the target."""
        index = bisect_left(self._sources, end)
        return self._sources[index - 1] + 1 if index else 0

    def source_end(self, target_end: int) -> int:
        """From which record of the source on nothing is at the target before `target_end`."""
        index = bisect_left(self._targets, target_end)
        return self.wanted_from(self._reached[index - 1] if index else 0)

    def wanted_from(self, offset: int) -> int:
        """The first record of the source from there on that is to be at the target."""
        index = bisect_left(self._wanted, offset)
        return self._wanted[index] if index < len(self._wanted) else max(self._end, offset)

    def next_of_source(self, position: int) -> int:
        """The first copied record that a group at this position of the source has not read; the end for none."""
        index = bisect_left(self._sources, position)
        return self._sources[index] if index < len(self._sources) else self._end

    def next_of_target(self, position: int) -> int:
        """The same for a position at the target."""
        index = bisect_left(self._targets, position)
        return self._following[index] if index < len(self._following) else self._end
