"""What a take-over has found, as people read it."""

from __future__ import annotations

import uuid

import pytest

from isthmus.cli.setup.takeover import show
from isthmus.mirrormaker.alignment import Aligned
from isthmus.mirrormaker.takeover.plan import LinkTakeover, Outcome, PartitionTakeover, TopicTakeover
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import Gap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange


def topic(name: str, *partitions: PartitionTakeover) -> TopicTakeover:
    ids = TopicIds(source_topic=SourceTopic(name), source=uuid.uuid4(), target=uuid.uuid4(), is_mapped=True)
    return TopicTakeover(topic=TargetTopic(f"a.{name}"), source_topic=SourceTopic(name), ids=ids, partitions=partitions)


def test_every_partition_has_a_row_and_every_link_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it goes on, what was found, and why one was refused; the sums are at the end, on stderr."""
    found = Aligned(begin=60, ranges=(MappedRange(40, 42, 20),), beyond=10, repeated=5, aborted=2)
    taken = PartitionTakeover(
        partition=0, outcome=Outcome.TAKEN_OVER, committed=50, begin=60, target_end=67, found=found
    )
    gone = PartitionTakeover(partition=1, outcome=Outcome.TAKEN_OVER, committed=20, begin=60, gap=Gap(20, 60))
    refused = PartitionTakeover(
        partition=0, outcome=Outcome.REFUSED, committed=9, problem=Problem("it is shorter", "Exclude it.")
    )
    topics = topic("orders", taken, gone), topic("bills", refused), topic("unseen")
    link = LinkTakeover(link="a-b", offsets_topic="mm2-offsets.a.internal", topics=topics, unselected=("left",))

    show([link])

    out, err = capsys.readouterr()
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert any("taken over 50" in row and "10 5 60" in row for row in rows), out
    assert "2 records of aborted transactions copied" in " ".join(out.split())
    told = " ".join(err.split())
    assert "a-b: 1 topic taken over, 1 topic new, 1 topic refused; 10 records behind the positions" in told
    assert "5 records there once more; not selected by the link: left; nothing was written" in told
    assert not link.is_complete
