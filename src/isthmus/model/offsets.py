"""The offsets of records at the target, and the begin of copying."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.model.copyflags import Selection

EARLIEST: Final = -2
LATEST: Final = -1
"""Where copying begins, as ListOffsets has it; any other number is a timestamp in ms."""
EARLIEST_LOCAL: Final = -4
"""The beginning of the log on the brokers' own disks; earlier records are in a remote tier alone (KIP-405)."""


def written_start(start: int) -> str:
    """Format where copying begins, as people write it."""
    return {EARLIEST: "earliest", LATEST: "latest"}.get(start, str(start))


class RemotePolicy(enum.StrEnum):
    """The policy for records that only a remote tier of the source holds."""

    COPY = "copy"
    """They are copied like any others."""
    LEAVE = "leave"
    """They stay at the source: copying begins where the source's log begins on its brokers' own disks."""


class OffsetPolicy(enum.StrEnum):
    """Which offsets the records of a topic get at the target."""

    SAME = "same"
    """The offsets of the source; a topic that cannot have them is refused."""
    MAPPED = "mapped"
    """The next offsets at the target, with an exact map between both."""
    AUTO = "auto"
    """The offsets of the source if possible, else mapped ones."""


class Stretch(NamedTuple):
    """`length` records that were read, from `ordinal` on; at the source their offsets are consecutive from
    `source_begin` on, in one leader epoch.
    """

    ordinal: int
    source_begin: int
    length: int
    epoch: int

    @property
    def ordinal_end(self) -> int:
        return self.ordinal + self.length

    @property
    def source_end(self) -> int:
        return self.source_begin + self.length


class Skips(NamedTuple):
    """`records` that could not be changed and were left out, right before the record `ordinal`."""

    ordinal: int
    records: int


class Departure(NamedTuple):
    """The records of a lane that may be sent once this is stored: where they come from, and what was skipped among
    them. A later `round` begins again where the records before were found to end: what earlier rounds state of records
    from there on is not true any more.
    """

    round: int
    stretches: tuple[Stretch, ...] = ()
    skips: tuple[Skips, ...] = ()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The progress of a mapped lane: every record before it is durable at the target.

    `source_offset` is the next offset to copy and `ordinal` the number of the next record to append, which determines
    its sequence. The lane counts from `first_ordinal` on: if the target's leader remembers the link's producer from an
    earlier life of the lane, that is where it stopped. The last record of the lane lies right before `target_offset`,
    unless there is none yet: then none of it lies before it or behind. The last `left_out` offsets before
    `source_offset` hold no copied record: the source may lose and replace them. `source_epoch` is a leader epoch of the
    source not below that of the last record before `source_offset`, -1 while unknown. A lane that `continues_another`
    was begun where another had stopped copying: another program (`isthmus import --take-over`), or a lane with the same
    offsets (`isthmus link recover --way mapped`). `rewound` counts how often the lane has gone back (the target had
    lost records that it had acknowledged, or the source some that had been left out) or received another selection. For
    a distributor that keeps copy flags in a header, `flags_replaced` counts the records whose header was invalid, or
    that had several. In the target's leader epoch `looked_epoch` no record of the lane lay from `target_offset` up to
    `looked_to` (-1: not examined). Later records are copied by its `selection`; if that is `None`, by the lane's own.
    Later records are changed by its `transform` ("" for none). Of those before it `skipped` counts the ones that a
    transform could not change and that were left out, and `filtered` the ones that it left out itself: a crash may keep
    those of its last second from being counted.
    """

    source_offset: int
    ordinal: int
    target_offset: int
    source_epoch: int = -1
    first_ordinal: int = 0
    continues_another: bool = False
    flags_replaced: int = 0
    rewound: int = 0
    left_out: int = 0
    looked_to: int = -1
    looked_epoch: int = -1
    selection: Selection | None = None
    transform: str = ""
    skipped: int = 0
    filtered: int = 0

    @property
    def copied_to(self) -> int:
        """The source offset behind the last record that was copied, or where copying began."""
        return self.source_offset - self.left_out

    @property
    def reach(self) -> tuple[int, int, int]:
        """The order of a lane's cursors: later ones are greater."""
        return self.rewound, self.ordinal, self.source_offset

    @property
    def copied_records(self) -> int:
        """The number of records that the lane has appended since it began."""
        return self.ordinal - self.first_ordinal

    @property
    def has_appended(self) -> bool:
        """Whether the lane has a record at the target."""
        return self.copied_records > 0

    def find_copied_end(self, reported: int) -> int:
        """Return the source offset up to which everything was copied, by the last report (-1 for none): the report may
        be of the lane before, if this one continues another and has appended nothing yet.
        """
        is_own = self.has_appended or not self.continues_another
        return max(self.source_offset, reported if is_own else -1)

    @property
    def has_copies(self) -> bool:
        """Whether any record was copied at all, by the lane or before it: a record that is deleted then is missing."""
        return self.has_appended or self.continues_another
