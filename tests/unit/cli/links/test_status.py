"""What `isthmus status` takes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from isthmus.cli.links.status import app


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
