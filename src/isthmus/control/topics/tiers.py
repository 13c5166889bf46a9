"""Topics of which a remote tier holds the older part (KIP-405): what of it is read from there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isthmus.control.topics.preflight import PartitionDecision
from isthmus.model.problem import Problem
from isthmus.model.wording import counted


def tier_notes(partitions: tuple[PartitionDecision, ...], local_starts: Mapping[int, int]) -> Iterator[Problem]:
    """How much of what is still to be copied the brokers of the source fetch from their remote tier."""
    offsets = 0
    for each in partitions:
        start = local_starts.get(each.partition)
        if each.refusal is None and each.source is not None and start is not None:
            copied_end = each.target_end if each.copied_end is None else each.copied_end
            offsets += max(min(start, each.source.end) - max(copied_end, each.source.start), 0)
    if offsets:
        yield Problem(
            f"{counted(offsets, 'offset')} to copy are in the remote tier of the source alone, and read through its "
            "brokers like any others",
            "It takes their time and their provider's traffic. The target keeps them on disks, or in a tier of its own "
            "(remote.storage.enable there).",
        )
