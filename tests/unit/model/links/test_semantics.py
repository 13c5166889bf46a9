"""What a cluster could keep when a link was declared, held against what it can keep now."""

from __future__ import annotations

import pytest

from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.semantics import SEMANTICS_LOOP, downgrade
from isthmus.model.loop import LoopProgress, LoopState
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


KEPT = {
    "kafka": "4.1",
    "features": {"metadata.version": 27, "transaction.version": 2},
    "topic_ids": True,
    "markers": True,
    "isthmus": "1.2",
    "schema_version": 1,
}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({}, None),
        ({"kafka": "4.2", "features": {"metadata.version": 29, "transaction.version": 2}, "isthmus": "1.3"}, None),
        ({"features": {"metadata.version": 27, "transaction.version": 1}}, "its transaction.version was 2, and is 1"),
        ({"features": {"metadata.version": 27}}, "its transaction.version was 2, and is 0"),
        ({"topic_ids": False}, "it reported the ids of topics, and does so no more"),
        ({"markers": False}, "it took control records (WriteTxnMarkers), and does so no more"),
        ({"schema_version": 0}, "its ledger had schema 1, and this Isthmus writes 0"),
        ({"kafka": "4.0", "markers": False}, "it was Kafka 4.1, and is 4.0; it took control records"),
    ],
)
def test_whatever_a_link_goes_by_is_missed(now: dict[str, object], told: str | None) -> None:
    """Releases, the levels of features that are in force, and what brokers offer; more than there was is no loss."""
    found = downgrade(KEPT, KEPT | now)
    assert found is told is None or (found is not None and told is not None and found.startswith(told))


def test_what_was_not_written_down_is_not_missed() -> None:
    """Links of another release may say nothing of it."""
    assert downgrade({}, {"kafka": "3.9"}) is None
    assert downgrade({"kafka": "4.1", "schema_version": 1}, KEPT | {"features": {}, "markers": False}) is None


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
