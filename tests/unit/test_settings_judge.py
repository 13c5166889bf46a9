"""The judge of the soak finds settings of topics that did not follow, and leaves alone what each cluster decides."""

from __future__ import annotations

import pytest

from soak.judge.settings import Setting, Shape, i19_convergence
from soak.judge.timeline import Sufferings


def shape(partitions: int = 3, **own: str) -> Shape:
    """A topic with settings of its own beside those of its brokers; underscores for dots."""
    defaults = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "604800000"}
    settings = {name: Setting(value, is_own=False) for name, value in defaults.items()}
    settings |= {name.replace("_", "."): Setting(value, is_own=True) for name, value in own.items()}
    return Shape(partitions=partitions, settings=settings)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (shape(), shape()),
        (shape(retention_ms="-1"), shape(retention_ms="-1")),
        (shape(min_insync_replicas="2"), shape(unclean_leader_election_enable="true")),
        (shape(compression_type="lz4"), shape(message_timestamp_after_max_ms="9")),
        (shape(), shape(cleanup_policy="delete")),
        (shape(retention_ms="604800000"), shape()),
        (shape(), shape(max_message_bytes="9000000")),
    ],
)
def test_settings_that_follow_are_alike(here: Shape, there: Shape) -> None:
    """Also where they are each cluster's own, said once more, or there by default, or where the target takes larger
    batches.
    """
    assert list(i19_convergence({"t": here}, {"t": there}, Sufferings([]))) == []


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (shape(retention_ms="-1"), shape()),
        (shape(retention_ms="-1"), shape(retention_ms="5")),
        (shape(), shape(retention_ms="5")),
        (shape(cleanup_policy="compact"), shape()),
        (shape(max_message_bytes="9000000"), shape()),
        (shape(4), shape(3)),
        (shape(3), shape(4)),
    ],
)
def test_a_setting_that_does_not_follow_is_found(here: Shape, there: Shape) -> None:
    """One that is missing, that is another, that nobody gave the source, and partitions; not of what faults touched."""
    assert len(list(i19_convergence({"t": here}, {"t": there}, Sufferings([])))) == 1
    suffered = [{"kind": "suffered", "at": 0.0, "topic": "t", "what": "foreign write"}]
    assert list(i19_convergence({"t": here}, {"t": there}, Sufferings(suffered))) == []
    assert list(i19_convergence({"t": here}, {}, Sufferings([]))) == []
