"""What costs much is done less often."""

from __future__ import annotations

import pytest

from isthmus.run.pace import Pace


@pytest.mark.parametrize(("processor_s", "again_at"), [(0.0, 100.0), (0.01, 100.49), (0.2, 105.0)])
def test_what_is_done_takes_a_fiftieth_of_a_processor(processor_s: float, again_at: float) -> None:
    """The first time at once, and then no sooner than 49 times as long as it took; after five seconds in any case."""
    pace = Pace()
    assert pace.is_due(0.0)
    pace.took(100.0, processor_s)
    assert [pace.is_due(again_at + after_s) for after_s in (-0.001, 0.001)] == [False, True]
