"""What a cluster could keep when a link was declared, held against what it can keep now."""

from __future__ import annotations

import pytest

from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.pair import PairState
from isthmus.model.progress import LinkProgress
from isthmus.model.semantics import SEMANTICS_LOOP, downgrade
from isthmus.model.state import LinkState


@pytest.mark.parametrize(
    ("before", "after", "is_less"),
    [
        ("4.4", "4.4 or newer", False),
        ("4.4", "4.3", True),
        ("4.4 or newer", "3.9 to 4.4", True),
        ("2.7 or older", "2.7 or older", False),
        ("3.9", "4.0", False),
        ("3.10", "3.9", True),
    ],
)
def test_the_oldest_broker_counts(before: str, after: str, is_less: bool) -> None:
    """Releases are compared as numbers; what one broker cannot keep the cluster cannot."""
    told = downgrade({"kafka": before}, {"kafka": after})
    assert (told is not None) is is_less
    assert told is None or (before in told and after in told)


def test_what_was_not_written_down_is_not_missed() -> None:
    """Links of another release may say nothing of it."""
    assert downgrade({}, {"kafka": "3.9"}) is None


@pytest.mark.parametrize("state", [LoopState.ACTIVE, LoopState.IN_ERROR])
def test_a_link_of_a_downgraded_cluster_is_out_of_sync(state: LoopState) -> None:
    """It does not follow, whatever it has copied; with clusters as they were it does."""
    link = LinkProgress(
        link="l",
        source="a",
        target="b",
        state=LinkState.ACTIVE,
        loops=(LoopProgress(loop=SEMANTICS_LOOP, state=state),),
    )
    assert link.pair_state is (PairState.FOLLOWING if state is LoopState.ACTIVE else PairState.OUT_OF_SYNC)
