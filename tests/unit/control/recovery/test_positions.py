"""Where consumer groups stand once their topic is filled anew."""

from __future__ import annotations

from isthmus.control.recovery.positions import foreseen
from isthmus.model.recovery import DivergedPartition, HeldPosition


def test_no_group_stands_beyond_what_is_shared() -> None:
    """A position up to the last shared offset stays; one beyond it goes there, and is told; partitions do not mix.
    Where a map tells what a position is at the source, it goes there.
    """
    partitions = [
        DivergedPartition(partition=number, source_begin=0, source_end=90, target_begin=0, target_end=60, shared=shared)
        for number, shared in enumerate((50, 10))
    ]
    held = [
        HeldPosition("billing", 0, 50, "note"),
        HeldPosition("billing", 1, 11),
        HeldPosition("shipping", 0, 60),
    ]
    told_by_map = HeldPosition("returns", 1, 59, "", 33)
    held.append(told_by_map)
    told = [(each.group, each.partition, each.after, bool(each.reason)) for each in foreseen(held, partitions)]
    assert told == [
        ("billing", 0, 50, False),
        ("billing", 1, 10, True),
        ("shipping", 0, 50, True),
        ("returns", 1, 33, False),
    ]
