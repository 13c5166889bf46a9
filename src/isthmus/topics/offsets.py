"""Decide which offsets a topic's records get at the target: those of the source, or mapped ones. By rules alone.

A topic keeps the offsets it was begun with: the ledger has them. A topic that is about to begin gets what is asked for;
with `auto` the source's offsets unless there is a reason against them before the first byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.model.kafka.topic import Parted, TopicIds
from isthmus.model.lane import LaneState
from isthmus.model.links.transform import Transform
from isthmus.model.offsets import EARLIEST, OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.model.text.instant import written_instant
from isthmus.model.text.wording import format_count
from isthmus.topics.preflight import TopicDecision, TopicPair, is_compacted

_HINT: Final = "topics.offsets: same refuses it instead; see docs/offsets.md for the effect on consumers."
_CHANGED: Final = Problem(
    "offsets are mapped, as records are changed on the way (transform)",
    "A mapping with its topic and nothing else, before the others, leaves it as it is; see docs/transforms.md.",
)
_UNDECIDED_HINT: Final = "It begins when that is known. topics.offsets: same or mapped does not wait for it."


class Choice(NamedTuple):
    """Whether offsets are mapped. `reason` says why, where Isthmus decides, and `refusal` why they cannot be, or not
    yet: then `state` is that of its lanes.
    """

    is_mapped: bool
    reason: Problem | None = None
    refusal: Problem | None = None
    state: LaneState = LaneState.REFUSED


def choose(
    settings: TopicSettings,
    pair: TopicPair,
    recorded: TopicIds | None,
    same: Callable[[], TopicDecision],
    transform: Transform | None = None,
) -> Choice:
    """Choose the offsets of one topic; `same` is the decision about it with those of the source, which records that a
    `transform` changes on the way cannot have.
    """
    policy = settings.offsets
    if recorded is not None and recorded.parted is not None:
        return Choice(is_mapped=True, reason=_parted_reason(recorded.parted))
    if transform is not None:
        return _choose_changed(policy, recorded)
    if recorded is None:
        if policy is not OffsetPolicy.AUTO:
            return Choice(policy is OffsetPolicy.MAPPED)
        if pair.undecided:
            problem = _silent(sorted(pair.undecided), "where its log begins on the brokers' own disks")
            return Choice(is_mapped=False, refusal=problem, state=LaneState.SOURCE_UNAVAILABLE)
        reason = _against_same(settings, pair, same)
        if reason is not None:
            return _without_ids(pair) or Choice(is_mapped=True, reason=reason)
        return _undecided_choice(pair) or Choice(is_mapped=False)
    if policy is OffsetPolicy.AUTO:
        reason = Problem("offsets are mapped, as they were when the topic was begun", _HINT)
        return Choice(recorded.is_mapped, reason if recorded.is_mapped else None)
    is_mapped = policy is OffsetPolicy.MAPPED
    if recorded.is_mapped == is_mapped:
        return Choice(is_mapped)
    was, wanted = ("mapped", "the source's") if recorded.is_mapped else ("the source's", "mapped ones")
    held = ", which also loses records that others wrote to it" if recorded.is_mapped else ""
    refusal = Problem(
        f"the topic was begun with {was} offsets, and is now to have {wanted}",
        f"Set topics.offsets to {'mapped' if recorded.is_mapped else 'same'} or auto, or have the topic begin again: "
        f"under another name (topics.naming), or after its target topic was deleted{held}.",
    )
    return Choice(is_mapped, refusal=refusal)


def _choose_changed(policy: OffsetPolicy, recorded: TopicIds | None) -> Choice:
    """Choose the offsets of a topic whose records are changed: mapped ones, or none at all."""
    problem = None
    if recorded is None and policy is OffsetPolicy.SAME:
        problem = Problem(
            "its records are changed on the way (transform), and cannot keep the source's offsets",
            "Set topics.offsets to auto or mapped, or leave it out.",
        )
    elif recorded is not None and not recorded.is_mapped:
        problem = Problem(
            "the topic was begun with the source's offsets, and its records are now to be changed on the way "
            "(transform)",
            "Have it begin again: under another name (topics.naming), or after its target topic was deleted. Or leave "
            "it as it is: a mapping of transform with its topic and nothing else, before the others.",
        )
    if problem is not None:
        return Choice(is_mapped=recorded is not None and recorded.is_mapped, refusal=problem)
    return Choice(is_mapped=True, reason=None if policy is OffsetPolicy.MAPPED else _CHANGED)


def _parted_reason(parted: Parted) -> Problem:
    by = f" by {parted.by}" if parted.by else ""
    return Problem(
        f"offsets are mapped behind the place where both sides had parted: recovered so{by} on "
        f"{written_instant(parted.at_ms)}",
        "isthmus link recover LINK --topic TOPIC --way rebuild has the source's offsets again.",
    )


def _against_same(settings: TopicSettings, pair: TopicPair, same: Callable[[], TopicDecision]) -> Problem | None:
    """Return why a topic that is about to begin cannot have the source's offsets, or `None`."""
    if settings.start != EARLIEST:
        return Problem("offsets are mapped, as the topic does not begin where the source begins (topics.start)", _HINT)
    if _was_written(pair):
        held = sum(log.end - log.start for log in pair.target_ranges.values())
        written = (
            f"offsets are mapped, as the target topic was written to before (it holds {format_count(held, 'offset')})"
        )
        return Problem(written, _HINT)
    decision = same()
    refused = [*decision.refusals, *(p.refusal for p in decision.partitions if p.refusal is not None)]
    return Problem(f"offsets are mapped: {refused[0].message}", _HINT) if refused else None


def _was_written(pair: TopicPair) -> bool:
    return any(log.end > 0 for log in pair.target_ranges.values())


def _without_ids(pair: TopicPair) -> Choice | None:
    """Refuse where brokers give topics no ids: records of others look like those of a begun topic."""
    if pair.target is None or pair.target.topic_id != NO_TOPIC_ID or not _was_written(pair):
        return None
    problem = Problem(
        "the target topic was written to, and whether it was begun with the source's offsets is not known: its brokers "
        "give topics no ids",
        "Set topics.offsets to same or mapped.",
    )
    return Choice(is_mapped=True, refusal=problem)


def _undecided_choice(pair: TopicPair) -> Choice | None:
    """Wait for unknown facts that may rule out the source's offsets, as a topic keeps the kind it is begun with."""
    at_target = range(0 if pair.target is None else pair.target.partition_count)
    silent = [partition for partition in at_target if partition not in pair.target_ranges]
    if silent:
        problem = _silent(silent, "whether the target topic was written to before")
        return Choice(is_mapped=False, refusal=problem, state=LaneState.TARGET_UNAVAILABLE)
    silent = [partition for partition in range(pair.source.partition_count) if partition not in pair.source_ranges]
    if silent and is_compacted(pair.source):
        problem = _silent(silent, "how much of the source compaction has left")
        return Choice(is_mapped=False, refusal=problem, state=LaneState.SOURCE_UNAVAILABLE)
    return None


def _silent(partitions: Sequence[int], what: str) -> Problem:
    more = f" and {format_count(len(partitions) - 1, 'more partition')}" if len(partitions) > 1 else ""
    return Problem(
        f"its offsets are not decided yet: {what} is not known while partition {partitions[0]}{more} does not answer",
        _UNDECIDED_HINT,
    )
