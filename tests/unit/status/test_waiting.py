"""How a wait describes what it has seen."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.model.links.progress import LinkProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.state import LinkState
from isthmus.status.waiting import Waiting
from testing.values.standing import partition_of


@pytest.mark.parametrize(
    ("source_age_s", "more", "lag"),
    [
        (2.0, {}, "lag 5"),
        (46.0, {}, "lag 5 (as of 46 s ago)"),
        (2.0, {"look_age_s": 44.0}, "lag 5 (as of 46 s ago)"),
    ],
)
def test_an_old_lag_has_its_age(source_age_s: float, more: dict[str, Any], lag: str) -> None:
    """As in status; what was seen by a look that is not the last one is older than it was then."""
    partition = partition_of("orders", source_end=15, source_age_s=source_age_s)
    topic = topic_of(TargetTopic("orders"), SourceTopic("orders"), [partition])
    link = LinkProgress(link="east-west", source="east", target="west", state=LinkState.UNAVAILABLE, topics=(topic,))
    look = Waiting(link=link, topic=None, unmet=(), elapsed_s=47.0, **more)
    assert look.described == f"east-west is UNAVAILABLE, {lag}"
