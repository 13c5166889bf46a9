"""What `isthmus status` takes, and what it says below its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from isthmus.cli.links.status import app, tell_problems
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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--tasks", "--leases"], "--tasks does not go with --leases"),
        (["--tasks", "--partitions"], "--tasks does not go with --partitions"),
        (["--leases", "--watch", "--topic", "t"], "--leases does not go with --watch, --topic"),
    ],
)
def test_what_is_not_of_topics_is_shown_by_itself(given: list[str], says: str) -> None:
    """The hint says where programs find it."""
    error = CliRunner().invoke(app, given).exception
    assert says in str(error)
    assert "With -o json they are in " in getattr(error, "hint", "")
