"""How long tests wait for what is to happen: a sound product fails on no machine, however busy that is."""

from __future__ import annotations

from typing import Final

TERM_S: Final = 300.0
"""What passes never waits for it."""

UNFENCED: Final = {"broker.session.timeout.ms": "600000"}
"""Properties of brokers that no test restarts: the controller among them fences none after they stood still."""


def pause_s(looked_s: float) -> float:
    """How long to do nothing (s) after a look that took so long: waiting leaves most of a busy machine to others."""
    return min(max(0.05, 2 * looked_s), 1.0)
