"""Topics of which a remote tier holds the older part (KIP-405): what of it is read from there. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from isthmus.control.topics.preflight import PartitionDecision
from isthmus.model.log import LogRange
from isthmus.model.offsets import EARLIEST_LOCAL, RemotePolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.model.topic import TopicDescription
from isthmus.model.wording import counted

_TIERED: Final = "remote.storage.enable"


def is_tiered(source: TopicDescription) -> bool:
    """Whether a remote tier may hold a part of a topic."""
    return source.value(_TIERED) == "true"


def start_at(settings: TopicSettings, source: TopicDescription) -> int:
    """Where copying a topic of the source begins, if its offsets are mapped (`model.offsets`)."""
    is_left = settings.remote is RemotePolicy.LEAVE and is_tiered(source)
    return EARLIEST_LOCAL if is_left else settings.start


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


def left_notes(
    source: Mapping[int, LogRange], local_starts: Mapping[int, int], *, begun: Container[int]
) -> Iterator[Problem]:
    """How much is left to the source's remote tier of partitions that are yet to begin at their local log start."""
    offsets = sum(
        max(start - source[partition].start, 0)
        for partition, start in local_starts.items()
        if partition in source and partition not in begun
    )
    if offsets:
        yield Problem(
            f"{counted(offsets, 'offset')} in the remote tier of the source alone are left there: copying begins at "
            "the local log start (topics.remote: leave)",
            "Who wants them reads them at the source. topics.remote: copy copies them too, as long as the topic has "
            "not begun.",
        )
