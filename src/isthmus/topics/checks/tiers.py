"""Topics with an older part in a remote tier (KIP-405): which part is read from there. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Final

from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import LeftInTier, TopicDescription, TopicIds
from isthmus.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, RemotePolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.model.text.wording import format_count
from isthmus.topics.preflight import PartitionDecision, TopicPair, target_end_of

_TIERED: Final = "remote.storage.enable"
_TOLD_MAX: Final = 5


def is_tiered(source: TopicDescription) -> bool:
    """Whether a remote tier may hold a part of a topic."""
    return source.value(_TIERED) == "true"


def start_at(settings: TopicSettings, source: TopicDescription) -> int:
    """Return where copying a topic of the source begins (`model.offsets`), if that was not written down."""
    is_left = settings.remote is RemotePolicy.LEAVE and is_tiered(source)
    return EARLIEST_LOCAL if is_left else settings.start


def starts_at(settings: TopicSettings, source: TopicDescription, first_partitions: int) -> tuple[int, ...]:
    """Return the same by partition, given how many there were at first: partitions that came later are copied whole."""
    start, count = start_at(settings, source), source.partition_count
    first = min(first_partitions, count) if start == LATEST else count
    return (*[start] * first, *[EARLIEST] * (count - first))


def with_beginnings(
    settings: TopicSettings, pair: TopicPair, recorded: TopicIds | None, local_starts: Mapping[int, int]
) -> tuple[TopicPair, tuple[LeftInTier, ...]]:
    """Return the pair with where its partitions begin if they keep their offsets, and what they leave in the tier.

    A `recorded` beginning holds, wherever the local log starts since. A partition with records at the target and
    without a recorded beginning began where the source began.
    """
    left = {} if recorded is None else {each.partition: each for each in recorded.left}
    undecided: set[int] = set()
    if start_at(settings, pair.source) == EARLIEST_LOCAL:
        for partition in range(pair.source.partition_count):
            log, start = pair.source_ranges.get(partition), local_starts.get(partition)
            target_end = target_end_of(pair, partition)
            if partition in left or target_end > 0:
                continue
            if log is None or start is None or target_end < 0:
                undecided.add(partition)
            else:
                left[partition] = LeftInTier(partition, log.start, start)
    if not left and not undecided:
        return pair, ()
    begins = {partition: each.offset_end for partition, each in left.items()}
    return replace(pair, begins=begins, undecided=frozenset(undecided)), tuple(left[each] for each in sorted(left))


def mapped_left(pair: TopicPair, start: int, local_starts: Mapping[int, int]) -> tuple[LeftInTier, ...]:
    """Return what partitions with mapped offsets that have not begun leave in the tier, up to where they will find that
    the local log starts: their maps will have it.
    """
    if start != EARLIEST_LOCAL:
        return ()
    return tuple(
        LeftInTier(partition, log.start, local_starts[partition])
        for partition, log in sorted(pair.source_ranges.items())
        if partition in local_starts
    )


def tier_notes(partitions: tuple[PartitionDecision, ...], local_starts: Mapping[int, int]) -> Iterator[Problem]:
    """Yield a note on how much is still to be copied from the remote tier of the source's brokers."""
    offsets = 0
    for each in partitions:
        start = local_starts.get(each.partition)
        if each.refusal is None and each.source is not None and start is not None:
            copied_end = each.target_end if each.copied_end is None else each.copied_end
            offsets += max(min(start, each.source.end) - max(copied_end, each.first), 0)
    if offsets:
        yield Problem(
            f"{format_count(offsets, 'offset')} to copy are in the remote tier of the source alone, and read through "
            f"its brokers like any others; {_describe_starts(local_starts)}",
            "It takes their time and their provider's traffic. The target keeps them on disks, or in a tier of its own "
            "(remote.storage.enable there).",
        )


def left_notes(
    source: Mapping[int, LogRange], begins: Mapping[int, int], *, begun: Container[int]
) -> Iterator[Problem]:
    """Yield a note on how much partitions that will begin at their local start leave in the source's remote tier."""
    new = {partition: start for partition, start in begins.items() if partition in source and partition not in begun}
    offsets = sum(max(start - source[partition].start, 0) for partition, start in new.items())
    if offsets:
        yield Problem(
            f"{format_count(offsets, 'offset')} in the remote tier of the source alone are left there: copying begins "
            f"at the local log start (topics.remote: leave); {_describe_starts(new)}",
            "Consumers that need them read them at the source. topics.remote: copy copies them too, as long as the "
            "topic has "
            "not begun.",
        )


def _describe_starts(starts: Mapping[int, int]) -> str:
    first = sorted(starts.items())[:_TOLD_MAX]
    more = f" and {len(starts) - len(first):,} more" if len(starts) > len(first) else ""
    places = ", ".join(f"partition {partition} at {start:,}" for partition, start in first)
    return f"logs on disks start with {places}{more}"
