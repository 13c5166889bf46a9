"""What became of each of many items, where all of them have to be known."""

from __future__ import annotations

import pytest

from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka.outcomes import Outcomes


def test_one_that_did_not_work_is_not_passed_over() -> None:
    """A partition without a leader may have what nobody else has: no answer of it is no empty log."""
    errors: dict[str, ClusterError] = {
        "b": BrokerRefused("no leader", cluster="c", code=5, name="LEADER_NOT_AVAILABLE")
    }
    assert Outcomes({"a": 1}).all() == {"a": 1}
    with pytest.raises(BrokerRefused, match="no leader"):
        Outcomes({"a": 1}, errors).all()
