"""What `isthmus status` says below its table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.cli.links.status import tell_problems
from isthmus.model.links.transform import OnError, Transform
from testing.values.standing import link_at, partition_of, topic_at


@pytest.mark.parametrize(
    ("on_error", "said"),
    [
        (OnError.SKIP, "skipped for it"),
        (
            OnError.DEAD_LETTER,
            "isthmus quarantine list east-west orders counts dead letters, and how many were replayed",
        ),
    ],
)
def test_records_that_failed_are_said_apart_from_those_that_are_filtered(
    on_error: OnError, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are counted for good, also when their dead letters are replayed."""
    partition = partition_of("orders", copied_end=9, filtered=5, skipped=2)
    transform = Transform(where="true", on_error=on_error)
    topic = replace(topic_at("orders", partition), transform=transform, awaits_reload=True)
    tell_problems([link_at(topic)])
    told = " ".join(capsys.readouterr().err.split())
    assert "the transform has failed for 2 records so far" in told
    assert said in told
    assert "still has another transform than the file" in told
