"""The possible Kafka releases of a broker, by its offered versions: brokers do not report their release."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


class Release(NamedTuple):
    """A minor release of Kafka; its patches cannot be distinguished."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Releases:
    """The possible releases, from the oldest to the newest; `is_open` adds all later ones."""

    oldest: Release
    newest: Release
    is_open: bool = False

    def __str__(self) -> str:
        if self.newest < _MARKS[0].release:
            return f"{self.newest} or older"
        words = str(self.oldest)
        if self.oldest != self.newest:
            is_next = _KNOWN.index(self.newest) - _KNOWN.index(self.oldest) == 1
            words += f" {'or' if is_next and not self.is_open else 'to'} {self.newest}"
        return f"{words} or newer" if self.is_open else words


class _Mark(NamedTuple):
    """The first release to offer a version of a message. It is the broker's own, not the controllers'."""

    release: Release
    api_key: int
    version: int


_LEADER_AND_ISR: Final = 4
_MARKS: Final = (
    _Mark(Release(2, 8), 0, 9),  # Produce
    _Mark(Release(3, 0), 2, 7),  # ListOffsets
    _Mark(Release(3, 1), 1, 13),  # Fetch
    _Mark(Release(3, 2), 11, 9),  # JoinGroup
    _Mark(Release(3, 3), 29, 3),  # DescribeAcls
    _Mark(Release(3, 4), _LEADER_AND_ISR, 7),
    _Mark(Release(3, 5), 1, 15),
    _Mark(Release(3, 6), 24, 4),  # AddPartitionsToTxn
    _Mark(Release(3, 7), 1, 16),
    _Mark(Release(3, 8), 0, 11),
    _Mark(Release(3, 9), 1, 17),
    _Mark(Release(4, 0), 2, 10),
    _Mark(Release(4, 1), 0, 13),
    _Mark(Release(4, 2), 2, 11),
    _Mark(Release(4, 3), 35, 5),  # DescribeLogDirs
    _Mark(Release(4, 4), 28, 6),  # TxnOffsetCommit
)
_OLDER: Final = Release(2, 7)
_KNOWN: Final = (_OLDER, *(mark.release for mark in _MARKS))

# The highest metadata.version of each release (MetadataVersion in Kafka's source); every one has had a new one.
_LEVELS: Final = {
    7: Release(3, 3),
    8: Release(3, 4),
    11: Release(3, 5),
    14: Release(3, 6),
    19: Release(3, 7),
    20: Release(3, 8),
    21: Release(3, 9),
    25: Release(4, 0),
    27: Release(4, 1),
    29: Release(4, 2),
    30: Release(4, 3),
    33: Release(4, 4),
}


def releases_of(offered: Mapping[int, tuple[int, int]], *, metadata_level_max: int | None) -> Releases:
    """Return the possible releases of a broker that offers these versions of messages (lowest and highest by API key).

    `metadata_level_max` is the highest metadata.version it supports; `None` if it reports none, as with ZooKeeper.
    """
    by_messages = _by_messages(offered)
    if metadata_level_max is None:
        return by_messages
    by_level = _by_level(metadata_level_max)
    if by_messages.oldest <= by_level.oldest <= by_messages.newest:
        return by_level
    return hull([by_messages, by_level])


def hull(several: Collection[Releases]) -> Releases:
    """Return the range from the oldest to the newest of several."""
    newest = max(each.newest for each in several)
    return Releases(
        oldest=min(each.oldest for each in several),
        newest=newest,
        is_open=any(each.is_open for each in several if each.newest == newest),
    )


def _by_messages(offered: Mapping[int, tuple[int, int]]) -> Releases:
    there = [mark.release for mark in _MARKS if offered.get(mark.api_key, (0, -1))[1] >= mark.version]
    oldest = newest = max(there, default=_OLDER)
    following = next((mark for mark in _MARKS if mark.release > newest), None)
    # KRaft brokers accept no LeaderAndIsr at all, so the release that it marks looks like the one before.
    if following is not None and following.api_key == _LEADER_AND_ISR and _LEADER_AND_ISR not in offered:
        newest = following.release
    return Releases(oldest, newest, is_open=following is None)


def _by_level(level: int) -> Releases:
    release = next((_LEVELS[highest] for highest in sorted(_LEVELS) if level <= highest), None)
    if release is None:
        return Releases(_KNOWN[-1], _KNOWN[-1], is_open=True)
    return Releases(release, release)
