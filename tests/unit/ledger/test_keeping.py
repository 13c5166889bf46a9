"""Configurations with which a ledger forgets."""

from __future__ import annotations

import pytest

from isthmus.ledger.keeping import unkept
from isthmus.model.kafka.topic import ConfigEntry


@pytest.mark.parametrize(
    ("policy", "bytes_max", "remedy"),
    [
        ("compact", "8388608", None),
        ("compact", "1048588", None),
        (None, None, None),
        ("delete", "8388608", "cleanup.policy=compact."),
        ("compact,delete", "8388608", "cleanup.policy=compact."),
        ("compact", "100000", "max.message.bytes=8388608."),
        ("delete", "100000", "cleanup.policy=compact,max.message.bytes=8388608."),
    ],
)
def test_a_ledger_that_forgets(policy: str | None, bytes_max: str | None, remedy: str | None) -> None:
    """What is deleted by its age or does not fit; the hint is the command that mends it. What is not told is not
    refused.
    """
    values = {"cleanup.policy": policy, "max.message.bytes": bytes_max}
    problem = unkept({name: ConfigEntry(value) for name, value in values.items() if value is not None}, "west")
    assert (problem is None) is (remedy is None)
    assert problem is None or f"--add-config {remedy}" in problem.hint
