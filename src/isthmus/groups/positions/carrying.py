"""The rules that decide how to treat one position of a group at the target, and nothing else.

Never above the target's high watermark, never below its log start. Never while the group has members at the target.
Never back, unless the source was moved back and the target's position is still the one written here; or the target lost
records and its position, written here, lies behind its end. If another client moved the target's position, it stays
until the source moves. A position that a link in the other direction wrote at the source counts as written here
(`Written`). If no other client may commit, and clients of the source rely on the target, the position follows the
source whoever moved it before.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from isthmus.model.kafka.group import Committed


class Standing(enum.StrEnum):
    """How a group, or one position of it, stands at the target."""

    IN_STEP = "IN_STEP"
    """The target's position is that of the source, translated."""
    TRANSLATED = "TRANSLATED"
    """The position at the target is known, but the link does not commit it."""
    DUE = "DUE"
    """The target's position is to be written."""
    CATCHING_UP = "CATCHING_UP"
    """The target does not hold the records before the position yet: its position is the end of what is there."""
    WAITING_FOR_MAP = "WAITING_FOR_MAP"
    """The ledger does not have the places of the records at the position yet, which have other
    offsets at the target.
    """
    ACTIVE_AT_TARGET = "ACTIVE_AT_TARGET"
    """The group has members at the target: it continues from its own position."""
    AHEAD_AT_TARGET = "AHEAD_AT_TARGET"
    """The target's position is ahead, and was not put there by this link, or the source was not moved back."""
    CLOCKS_DIFFER = "CLOCKS_DIFFER"
    """In a tree: times of records prove less than they should, so the target's position is held back, or left alone."""
    MOVED_AT_TARGET = "MOVED_AT_TARGET"
    """Another client moved the target's position, and the source's has not changed since."""
    BY_OTHERS = "BY_OTHERS"
    """In a tree: the newest position comes another way, from the target's side or by another distributor."""
    NOT_MIRRORED = "NOT_MIRRORED"
    """The link does not mirror the topic."""
    OFFSETS_DIFFER = "OFFSETS_DIFFER"
    """The records have other offsets at the target, and the link is configured to carry positions unchanged."""
    MIRROR_ENDED = "MIRROR_ENDED"
    """The partition at the target is no copy of the source's any more."""
    GONE_AT_SOURCE = "GONE_AT_SOURCE"
    """The source has no such group any more."""
    NOT_AUTHORIZED = "NOT_AUTHORIZED"
    """A right is missing."""
    UNAVAILABLE = "UNAVAILABLE"
    """Something did not answer, or changed while it was looked at; tried again."""
    UNSUPPORTED = "UNSUPPORTED"
    """A group of this type does not keep its progress in committed offsets."""
    NAMES_MEET = "NAMES_MEET"
    """Another group would have the same name at the target, or the name does not lead back: neither is carried."""


PARTED: Final = frozenset({Standing.ACTIVE_AT_TARGET, Standing.NAMES_MEET, Standing.UNSUPPORTED})
"""A group in such a state continues from a position of its own at the target although it only follows (`Situation`), or
has none there.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """The positions of both sides when they were last made equal: the source's position, and the corresponding one at
    the target.

    One of them was written after the other: the target's by this link, or the source's by one in the other direction.
    `metadata` is what stood beside it, `None` where that is not remembered.
    """

    source: int
    target: int
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The facts that decide about one position.

    `translated` is the source's position at the target, `committed` the target's own. `log_start` and `high_watermark`
    are the target's. A position that is not `is_reached` is known to lie behind what was copied, wherever the target's
    log ends. A link that does not commit (`commits` is false) only reports the position. For a group that
    `only_follows` no other client can commit at the target, and each commit that is acknowledged at the source has to
    be there.
    """

    source: Committed
    translated: int
    committed: Committed | None
    log_start: int
    high_watermark: int
    is_vacant: bool
    written: Written | None = None
    is_reached: bool = True
    commits: bool = True
    only_follows: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision: commit `offset` at the target, or (`None`) leave it as it is; and the reason."""

    standing: Standing
    offset: int | None = None


def decide(situation: Situation) -> Decision:
    """Decide how to treat a position."""
    wanted = min(max(situation.translated, situation.log_start), situation.high_watermark)
    is_short = wanted < situation.translated or not situation.is_reached
    committed = situation.committed
    if not situation.commits:
        return Decision(Standing.CATCHING_UP if is_short else Standing.TRANSLATED)
    settled = Standing.CATCHING_UP if is_short else Standing.IN_STEP
    if committed is not None and committed.offset == wanted and not _has_news(situation, committed):
        return Decision(settled)
    if not situation.is_vacant:
        return Decision(Standing.ACTIVE_AT_TARGET)
    if not situation.only_follows and _was_moved(situation, wanted):
        return Decision(Standing.MOVED_AT_TARGET)
    if committed is None or committed.offset <= wanted or _may_go_back(situation, committed.offset):
        return Decision(Standing.CATCHING_UP if is_short else Standing.DUE, wanted)
    return Decision(Standing.AHEAD_AT_TARGET)


def _may_go_back(situation: Situation, committed: int) -> bool:
    written = situation.written
    if situation.only_follows:
        return True
    if written is None or written.target != committed:
        return False
    return situation.source.offset < written.source or committed > situation.high_watermark


def _was_moved(situation: Situation, wanted: int) -> bool:
    """Return whether an operator, or a link in the other direction, moved the target back after this link wrote it."""
    written, committed = situation.written, situation.committed
    if written is None or committed is None or committed.offset >= wanted:
        return False
    return committed.offset != written.target and situation.source.offset == written.source


def _has_news(situation: Situation, committed: Committed) -> bool:
    """Return whether only the metadata beside a position of ours has changed, and not only at the target."""
    written, metadata = situation.written, situation.source.metadata
    if written is None or written.target != committed.offset or not situation.is_vacant:
        return False
    return committed.metadata != metadata != written.metadata
