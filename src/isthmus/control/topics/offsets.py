"""Which offsets a topic's records get at the target: those of the source, or mapped ones. By rules alone.

What a topic was begun with it keeps: the ledger says so. A topic that is about to begin gets what is asked for; with
`auto` the source's offsets wherever nothing speaks against them before the first byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from isthmus.control.topics.preflight import TopicDecision, TopicPair
from isthmus.model.offsets import EARLIEST, OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.model.topic import TopicIds
from isthmus.model.wording import counted

_HINT = "topics.offsets: same refuses it instead; see docs/offsets.md for what consumers see."


class Choice(NamedTuple):
    """Whether offsets are mapped. `reason` says why, where it was left to us, and `refusal` why it cannot be."""

    is_mapped: bool
    reason: Problem | None = None
    refusal: Problem | None = None


def choose(
    settings: TopicSettings, pair: TopicPair, recorded: TopicIds | None, same: Callable[[], TopicDecision]
) -> Choice:
    """The offsets of one topic; `same` is what becomes of it with those of the source."""
    policy = settings.offsets
    if recorded is None:
        if policy is not OffsetPolicy.AUTO:
            return Choice(policy is OffsetPolicy.MAPPED)
        reason = _against_same(settings, pair, same)
        return Choice(reason is not None, reason)
    if policy is OffsetPolicy.AUTO:
        reason = Problem("offsets are mapped, as they were when the topic was begun", _HINT)
        return Choice(recorded.is_mapped, reason if recorded.is_mapped else None)
    is_mapped = policy is OffsetPolicy.MAPPED
    if recorded.is_mapped == is_mapped:
        return Choice(is_mapped)
    was, wanted = ("mapped", "the source's") if recorded.is_mapped else ("the source's", "mapped ones")
    refusal = Problem(
        f"the topic was begun with {was} offsets, and is now to have {wanted}",
        f"Set topics.offsets to {'mapped' if recorded.is_mapped else 'same'} or auto, or have the topic begin anew: "
        "under another name (topics.naming), or after its target topic was deleted.",
    )
    return Choice(is_mapped, refusal=refusal)


def _against_same(settings: TopicSettings, pair: TopicPair, same: Callable[[], TopicDecision]) -> Problem | None:
    """Why a topic that is about to begin cannot have the source's offsets."""
    if settings.start != EARLIEST:
        return Problem("offsets are mapped, as the topic does not begin where the source begins (topics.start)", _HINT)
    if any(log.end > 0 for log in pair.target_ranges.values()):
        held = sum(log.end - log.start for log in pair.target_ranges.values())
        written = f"offsets are mapped, as the target topic was written to before (it holds {counted(held, 'offset')})"
        return Problem(written, _HINT)
    decision = same()
    refused = [*decision.refusals, *(p.refusal for p in decision.partitions if p.refusal is not None)]
    return Problem(f"offsets are mapped: {refused[0].message}", _HINT) if refused else None
