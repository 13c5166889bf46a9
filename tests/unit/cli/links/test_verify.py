"""What `isthmus verify` prints."""

from __future__ import annotations

import json

import pytest

from isthmus.cli.links.verify import Watcher, show_verdicts, verify
from isthmus.cli.output import OutputFormat
from isthmus.errors import ConfigError
from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind, PartitionVerdict, TopicVerdict, Verdict
from isthmus.model.naming import SourceTopic, TargetTopic

Capture = pytest.CaptureFixture[str]


def verdict(*findings: Discrepancy, problem: str = "") -> Verdict:
    partition = PartitionVerdict(
        partition=3,
        offset_begin=0,
        offset_end=100,
        records=100,
        size_bytes=5000,
        missing=sum(one.records for one in findings),
        findings=findings,
    )
    topic = TopicVerdict(
        source_topic=SourceTopic("orders"), target_topic=TargetTopic("orders"), partitions=(partition,), problem=problem
    )
    return Verdict(source="east", target="west", topics=(topic,), read_bytes=10_000, elapsed_s=2.0)


def missing(offset: int) -> Discrepancy:
    return Discrepancy(kind=DiscrepancyKind.MISSING, offset_begin=offset, offset_end=offset + 1, records=1)


def test_an_empty_span_of_time_is_a_mistake() -> None:
    """Nothing would be compared, and found to be equal."""
    with pytest.raises(ConfigError, match="--since 5m is not before --until 10m"):
        verify(since="5m", until="10m")


def test_equal_logs_are_said_to_be_equal(capsys: Capture) -> None:
    """A row for each topic on stdout, how it ended on stderr."""
    show_verdicts({"east-west": verdict()}, OutputFormat.TABLE)

    out, err = capsys.readouterr()
    assert "equal" in out
    assert "east-west: east and west hold the same: 100 records compared" in err


def test_differences_are_named(capsys: Capture) -> None:
    """The first places are in the table, and how many more there are."""
    show_verdicts({"east-west": verdict(*(missing(n) for n in range(0, 14, 2)))}, OutputFormat.WIDE)

    out, err = capsys.readouterr()
    assert "different" in out
    assert "orders-3: missing at offset 0; orders-3: missing at offset 2" in out
    assert "and 2 more" in out
    assert "east and west DIFFER" in err


def test_problem_of_a_topic_is_told_first(capsys: Capture) -> None:
    """What is wrong with the topic as a whole explains the rest."""
    show_verdicts({"east-west": verdict(missing(1), problem="west has no topic orders")}, OutputFormat.TABLE)

    assert "west has no topic orders; orders-3: missing at offset 1" in " ".join(capsys.readouterr().out.split())


def test_json_has_everything(capsys: Capture) -> None:
    """Scripts get a list of links with their verdicts, and nothing else on stdout."""
    show_verdicts({"east-west": verdict(missing(7))}, OutputFormat.JSON)

    (found,) = json.loads(capsys.readouterr().out)
    assert (found["link"], found["equal"], found["records"]) == ("east-west", False, 100)
    assert found["topics"][0]["partitions"][0]["findings"][0]["kind"] == "missing"


def test_progress_is_told_now_and_then(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no terminal, a line every few seconds at most, and none twice."""
    now = 0.0
    monkeypatch.setattr("isthmus.cli.links.verify.time.monotonic", lambda: now)
    with Watcher() as watcher:
        for now, done in ((1.0, 1), (6.0, 2), (7.0, 3), (12.0, 2)):  # noqa: B007  # the lambda looks at it
            watcher.show("batches", done, 9)
        watcher.show("records", 0, 0)

    told = [line.partition(" isthmus: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["batches: 2 of 9 parts done", "records: planning"]
