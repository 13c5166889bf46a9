"""How a cluster that is away is shown, as others remember it."""

from __future__ import annotations

import pytest

from isthmus.cli.clusters.cluster import show_last_known
from isthmus.cli.output import OutputFormat
from isthmus.model.links.lastknown import LastKnown
from testing.values.remembered import EAST, NAMES

KNOWN = LastKnown(cluster=EAST, kept_by="west", age_s=90.0, away=("north",), names=(NAMES,))


@pytest.mark.parametrize(
    ("output", "shown", "left_out"),
    [
        (OutputFormat.TABLE, ("orders", "1 group and 1 access rule"), ("User:#0123", "metadata.version", "rack-a")),
        (OutputFormat.WIDE, ("orders", "retention.ms", "readers", "User:#0123", "metadata.version", "rack-a"), ()),
        (OutputFormat.JSON, ('"orders"', '"log_end": 9', '"readers"', '"User:#0123"', '"age_seconds": 90.0'), ()),
    ],
)
def test_what_is_remembered_is_shown(
    output: OutputFormat, shown: tuple[str, ...], left_out: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With its age; counts in a table, everything where there is room, and always what is not known."""
    show_last_known(KNOWN, output)
    printed = capsys.readouterr()
    told = printed.out + printed.err
    assert [text for text in shown if text not in told] == []
    assert [text for text in left_out if text in told] == []
    if output is not OutputFormat.JSON:
        for text in ("was not asked", "north did not answer", "7 more", "no rules of groups: no right to see them"):
            assert text in told
