"""What `isthmus tree verify` prints."""

from __future__ import annotations

import json

import pytest

from isthmus.cli.clusters.treeverifying import show_verdict
from isthmus.cli.output import OutputFormat
from isthmus.model.trees.treeverdict import (
    TreeFaultKind,
    TreeFinding,
    TreePartitionVerdict,
    TreeTopicVerdict,
    TreeVerdict,
)

Capture = pytest.CaptureFixture[str]


def verdict(*findings: TreeFinding) -> TreeVerdict:
    ams = TreePartitionVerdict(partition=0, cluster="ams", records=7, local=4, waiting=1)
    lon = TreePartitionVerdict(
        partition=0, cluster="lon", records=7, local=3, missing=len(findings), deleted=2, findings=findings
    )
    topic = TreeTopicVerdict(topic="flights", partitions=(ams, lon))
    return TreeVerdict(tree="t", clusters=("ams", "lon"), topics=(topic,), in_doubt=("lon",), elapsed_s=2.0)


def test_a_tree_that_is_right_is_said_to_be(capsys: Capture) -> None:
    """A row for each topic on stdout, how it ended and what is not known on stderr."""
    show_verdict(verdict(), OutputFormat.TABLE)

    out, err = capsys.readouterr()
    assert "right" in out
    told = " ".join(err.split())
    assert "t: messages are once on every cluster, in their order: 7 messages came in, 1 still on their way, 2 " in told
    assert "lon in doubt; 14 records of 2 clusters read in 2.0 s" in told


def test_what_is_wrong_is_named(capsys: Capture) -> None:
    """The first findings are in the table, with their partitions and clusters, and how many more there are."""
    missing = [TreeFinding(kind=TreeFaultKind.MISSING, origin="ams", origin_offset=n) for n in range(7)]
    show_verdict(verdict(*missing), OutputFormat.TABLE)

    out, err = capsys.readouterr()
    told = " ".join(out.split())
    assert "flights-0 on lon: offset 0 of ams is missing; flights-0 on lon: offset 1 of ams is missing" in told
    assert "and 2 more" in told
    assert "WRONG" in err


def test_json_has_everything(capsys: Capture) -> None:
    """Scripts get one value, and nothing else on stdout."""
    show_verdict(verdict(), OutputFormat.JSON)

    found = json.loads(capsys.readouterr().out)
    assert (found["tree"], found["equal"], found["in_doubt"]) == ("t", True, ["lon"])
    assert found["topics"][0]["partitions"][1]["deleted"] == 2
