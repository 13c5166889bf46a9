"""Beside which cluster a link is better run."""

from __future__ import annotations

import pytest

from isthmus.clusters.placement import placement_finding
from isthmus.model.kafka.findings import Level


@pytest.mark.parametrize(
    ("source_ms", "target_ms", "level"),
    [(0.3, 0.4, Level.OK), (80.0, 0.4, Level.OK), (0.3, 80.0, Level.WARN), (70.0, 72.0, Level.OK)],
)
def test_a_link_is_run_beside_its_target(source_ms: float, target_ms: float, level: Level) -> None:
    """A far target is worth a word, a far source is not."""
    found = placement_finding("east-west", "east", "west", source_ms, target_ms)
    assert found.level is level
    assert ("beside west" in found.hint) == (level is Level.WARN)
