"""Whether the mirror's processes end as they should, and keep to themselves what they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from soak.judge.evidence import Case, Violation

_BUG: Final = 70


def i20_no_secret_leak(case: Case) -> Iterator[Violation]:
    """No password stands in what the mirror wrote or showed."""
    for event in case.of("leak"):
        yield Violation(invariant="I20 no secret leak", where=event["file"], message="a password stands in it")


def i21_no_bug(case: Case) -> Iterator[Violation]:
    """A mirror that ends by itself says why in its own words, not in those of the programming language."""
    for event in case.of("mirror"):
        if event.get("code") == _BUG:
            message = f"ended by itself at {event['at']:.1f} s with code {_BUG}, a bug by its own word"
            yield Violation(invariant="I21 liveness", where="mirror", message=message)
    for event in case.of("traceback"):
        yield Violation(
            invariant="I21 liveness", where=event["file"], message="a traceback stands in it: " + event["said"]
        )
