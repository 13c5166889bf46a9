"""What is kept of how links did: rates, the last hour, and no more than that."""

from __future__ import annotations

import pytest

from isthmus.web.console.chart import series_of
from isthmus.web.history import HOUR_S, History
from testing.values.standing import link_at, topic_at


def test_rates_are_told_from_where_partitions_stood_before() -> None:
    """By link and by topic; a topic that came since has none yet."""
    history = History()
    history.take((link_at(topic_at("a", target_end=100), topic_at("b", target_end=5)),), 1000.0)
    assert history.rate("east-west") is None
    history.take((link_at(topic_at("a", target_end=400), topic_at("b", target_end=5), topic_at("new")),), 1010.0)

    assert history.rates("east-west") == {"a": 30.0, "b": 0.0, "new": 0.0}
    assert history.rate("east-west") == 30.0


def test_an_hour_is_kept_however_often_it_is_looked() -> None:
    """And nothing of a link that is gone."""
    history = History()
    for second in range(0, 9000, 2):
        history.take((link_at(topic_at("a", target_end=second)),), float(second))

    kept = history.of("east-west")
    assert len(kept) == 360
    assert kept[-1].at_s - kept[0].at_s <= HOUR_S
    assert kept[-1].records_per_s == pytest.approx(1.0)
    history.take((), 9000.0)
    assert history.of("east-west") == []


def test_where_nobody_looked_the_chart_has_a_hole() -> None:
    """And where the lag is unknown."""
    history = History()
    for at_s in (0.0, 10.0, 600.0):
        history.take((link_at(topic_at("a", source_end=30 if at_s else -1)),), at_s)

    assert series_of(history.of("east-west"))["lag"] == [None, 20, None, 20]
