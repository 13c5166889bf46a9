"""Synchronous links that have topics in common: acknowledgements of a topic wait for one follower, so one link gets it.

Such a pair is refused to operators, but one of an older release, or one that was attached while the other link became
synchronous, may exist all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from isthmus.model.gateways.synchrony import ONE_FOLLOWER, SyncPart, SyncState
from isthmus.model.links.declaration import Declaration


class _Held(Protocol):
    known: Declaration
    part: SyncPart

    @property
    def is_lost(self) -> bool: ...


def cross(links: Collection[_Held], was_in_sync: Callable[[Declaration], bool]) -> None:
    """Tell each of these links whether its topics are held for another one of them, and why. Links in sync keep their
    topics, and links that were in sync before take precedence over those that never were.
    """

    def rank(each: _Held) -> tuple[bool, bool, bool, str]:
        known, word = each.known, each.part.word
        is_in_sync = word is not None and word.state is SyncState.IN_SYNC
        return bool(each.part.crossed), not is_in_sync, not was_in_sync(known), known.name

    kept = list[Declaration]()
    for each in sorted((each for each in links if not each.is_lost), key=rank):
        why = next((why for other in kept if (why := _why(each.known, other))), "")
        each.part.cross(why)
        if not why:
            kept.append(each.known)


def is_crossing(links: Iterable[_Held]) -> bool:
    """Whether topics are still held for one of these links that has to leave them to another one."""
    return any(each.part.crossed and not (each.part.has_yielded or each.is_lost) for each in links)


def _why(known: Declaration, other: Declaration) -> str:
    if (shared := known.shared_with(other)) is None:
        return ""
    return f"{shared} of {known.source.alias} is in the synchronous link {other.name} too, and {ONE_FOLLOWER}"
