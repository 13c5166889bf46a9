"""Why topics are kept whose sources are gone, for whoever looks at them."""

from __future__ import annotations

import pytest

from isthmus.errors import (
    AnotherCluster,
    BrokerRefused,
    Fenced,
    GateNotMet,
    NotAuthorized,
    PlanRefused,
    Unreachable,
    UnsupportedByBroker,
)
from isthmus.kafka import codes
from isthmus.run.deletions import again_s, why_kept

DISABLED = BrokerRefused("refused", code=73, name="TOPIC_DELETION_DISABLED")
MOVED = BrokerRefused("moved", code=codes.NOT_LEADER_OR_FOLLOWER, name="NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize(
    "error",
    [
        PlanRefused("kept"),
        GateNotMet("kept"),
        UnsupportedByBroker("kept"),
        NotAuthorized("kept"),
        DISABLED,
        ValueError("kept"),
    ],
)
def test_what_does_not_pass_by_itself_is_told(error: Exception) -> None:
    """A right that is missing, a broker that deletes no topics, or a bug: the topic would be kept without a word."""
    found = why_kept(error, is_again=False)
    assert found is not None
    assert str(error) in found.message


@pytest.mark.parametrize("error", [TimeoutError(), Unreachable("away"), AnotherCluster("another"), MOVED])
def test_an_outage_is_a_reason_when_it_lasts(error: Exception) -> None:
    """It passes, and the topic is looked at again; but one broker that stays away is told of nowhere else."""
    assert why_kept(error, is_again=False) is None
    assert why_kept(error, is_again=True) is not None


def test_who_is_fenced_tells_nothing() -> None:
    """Another controller runs the link."""
    assert why_kept(Fenced("taken over"), is_again=True) is None


def test_a_long_log_is_not_read_all_the_time() -> None:
    """It takes hours to find what somebody else wrote at its end, and nothing comes of it."""
    assert (again_s(0.1), again_s(3600.0)) == (30.0, 36_000.0)
