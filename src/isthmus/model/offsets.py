"""Which offsets records get at the target, and where copying begins."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from isthmus.model.copyflags import Selection

EARLIEST: Final = -2
LATEST: Final = -1
"""Where copying begins, as ListOffsets has it; any other number is a timestamp in ms."""
EARLIEST_LOCAL: Final = -4
"""Where the log begins on the brokers' own disks; what lies before is in a remote tier alone (KIP-405)."""


def written_start(start: int) -> str:
    """Where copying begins, as people write it."""
    return {EARLIEST: "earliest", LATEST: "latest"}.get(start, str(start))


class RemotePolicy(enum.StrEnum):
    """What becomes of records that a remote tier of the source holds alone."""

    COPY = "copy"
    """They are copied like any others."""
    LEAVE = "leave"
    """They stay where they are: copying begins where the source's log begins on its brokers' own disks."""


class OffsetPolicy(enum.StrEnum):
    """Which offsets the records of a topic get at the target."""

    SAME = "same"
    """Those of the source; what cannot have them is refused."""
    MAPPED = "mapped"
    """Those that come next there, with an exact map of which went where."""
    AUTO = "auto"
    """Those of the source where that is possible, else mapped ones."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a mapped lane is: every record before it is durable at the target.

    `source_offset` is the next offset to copy and `ordinal` the number of the next record to append, from which its
    sequence follows. The lane counts from `first_ordinal` on: where the target's leader remembers the link's
    producer from an earlier life of the lane, that is where it left off. The last record of the lane lies right
    before `target_offset`, unless there is none yet: then none of it lies before it or behind. Of the offsets
    before `source_offset` the last `left_out` hold nothing that was copied: the source may lose and replace them.
    `source_epoch` is a leader epoch of the source not below that of the last record before `source_offset`, -1
    while unknown. A lane that `continues_another` was begun where another had stopped copying: another program
    (`isthmus import --take-over`), or a lane with the same offsets (`isthmus link recover --way mapped`). `rewound`
    is how often the lane has gone back (the target had lost what it had acknowledged, or the source what had been
    left out) or was told another selection. Of a distributor that keeps copy flags in a header, `flags_replaced`
    counts the records whose header said nothing, or that had several. In the target's leader epoch `looked_epoch`
    nothing of the lane lay from `target_offset` up to `looked_to` (-1: nobody has looked). What comes behind is
    copied by its `selection`: by what the lane is told itself where that is `None`.
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

    @property
    def copied_to(self) -> int:
        """The source offset behind the last record that was copied, or where copying began."""
        return self.source_offset - self.left_out

    @property
    def reach(self) -> tuple[int, int, int]:
        """What tells later cursors of a lane from earlier ones."""
        return self.rewound, self.ordinal, self.source_offset

    @property
    def copied_records(self) -> int:
        """How many records the lane has appended since it began."""
        return self.ordinal - self.first_ordinal

    @property
    def has_appended(self) -> bool:
        """Whether the lane has a record at the target."""
        return self.copied_records > 0

    def told(self, reported: int) -> int:
        """The source offset up to which everything was copied, by what was last reported (-1 for nothing): that may be
        of the lane before, where this one continues another and has appended nothing yet.
        """
        is_own = self.has_appended or not self.continues_another
        return max(self.source_offset, reported if is_own else -1)

    @property
    def has_copies(self) -> bool:
        """Whether anything was copied at all, by the lane or before it: what is deleted then is missing."""
        return self.has_appended or self.continues_another
