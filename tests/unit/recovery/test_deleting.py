"""What keeps a topic whose source is gone: what the link says by now, and how many have gone."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import replace

import pytest

from isthmus.errors import GateNotMet, IsthmusError, PlanRefused
from isthmus.kafka import codes
from isthmus.kafka.metadata import TopicMetadata
from isthmus.ledger.documents.kinds import DeletionDocument, Document, TaskPauseDocument, TopicDocument
from isthmus.local.operator import operator
from isthmus.memory.links import LinkMemory
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.loop import TOPICS_TASK
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.recovery.deleting import departures, require_policy

NOW_MS = 10_000_000
LINK = Link(
    name="l",
    source=Cluster(alias="east", bootstrap_servers=("e:9092",)),
    target=Cluster(alias="west", bootstrap_servers=("w:9092",)),
    topics=TopicSettings(include=(TopicPattern.parse("t*"),)),
    on_source_deleted="delete",
)


def memory(*documents: Document) -> LinkMemory:
    """What the ledger says of the link."""
    return LinkMemory("l", documents={each.key: each for each in documents})


def begun(number: int) -> TopicDocument:
    """A topic that the link mirrors."""
    return TopicDocument(
        link="l",
        source_topic=SourceTopic(f"t{number}"),
        source_topic_id=uuid.UUID(int=number),
        target_topic=TargetTopic(f"t{number}"),
        target_topic_id=uuid.UUID(int=100 + number),
        state="ACTIVE",
    )


def deletion(
    number: int, *, is_done: bool, age_ms: int = 0, is_asked_for: bool = False, by: str = ""
) -> DeletionDocument:
    """What the ledger says of a topic that was, or was to be, deleted."""
    return DeletionDocument(
        link="l",
        topic=TargetTopic(f"t{number}"),
        source_topic=SourceTopic(f"t{number}"),
        topic_id=uuid.UUID(int=100 + number),
        source_topic_id=uuid.UUID(int=number),
        offsets=1,
        is_asked_for=is_asked_for,
        is_done=is_done,
        by=by or operator(),
        at_ms=NOW_MS - age_ms,
    )


def shown(numbers: Collection[int], there: Collection[int]) -> dict[str, TopicMetadata]:
    """The source's answer about these topics, of which only those are `there`."""
    return {
        f"t{number}": TopicMetadata(
            f"t{number}",
            uuid.UUID(int=number if number in there else 0),
            (),
            codes.NONE if number in there else codes.UNKNOWN_TOPIC_OR_PARTITION,
            is_internal=False,
        )
        for number in numbers
    }


def test_a_deletion_whose_end_nobody_wrote_down_counts() -> None:
    """Who deleted it was killed, or waited too long: the topic is forgotten since. What is there to be deleted still
    counts once; what an operator asked for, and what is long ago, does not count.
    """
    known = memory(
        *map(begun, (1, 2, 3)),
        deletion(3, is_done=False),
        deletion(4, is_done=False),
        deletion(5, is_done=True),
        deletion(6, is_done=True, is_asked_for=True),
        deletion(7, is_done=True, age_ms=3_600_001),
    )
    found = departures(known, shown((1, 2, 3), there=(1, 2)), NOW_MS)
    assert (found.there, found.gone, found.recent) == (2, 1, 2)


def test_what_was_deleted_by_another_host_counts_for_a_day() -> None:
    """Its clock may be hours behind: what it deleted just now must not look as if it were long ago."""
    hour_ms = 3_600_000
    known = memory(
        *map(begun, (1, 2)),
        *(deletion(3 + age, is_done=True, age_ms=age * hour_ms, by="kate@elsewhere") for age in (0, 2, 23, 25)),
    )
    assert departures(known, shown((1, 2), there=(1, 2)), NOW_MS).recent == 3


@pytest.mark.parametrize(
    ("link", "documents", "error", "message"),
    [
        (LINK, [], None, ""),
        (replace(LINK, on_source_deleted="keep"), [], PlanRefused, "does not delete topics any more"),
        (
            replace(LINK, topics=TopicSettings(include=tuple(map(TopicPattern.parse, ("t*", "t1"))))),
            [],
            PlanRefused,
            "names t1",
        ),
        (LINK, [TaskPauseDocument(link="l", task=TOPICS_TASK, since_ms=1, by="kate")], GateNotMet, "paused"),
    ],
)
def test_what_an_operator_says_last_counts(
    link: Link, documents: list[Document], error: type[IsthmusError] | None, message: str
) -> None:
    """Reading the topic may take hours: meanwhile somebody names it among those to be mirrored, or pauses the task."""
    known = memory(begun(1), *documents)
    if error is None:
        require_policy(link, known, begun(1))
        return
    with pytest.raises(error, match=message):
        require_policy(link, known, begun(1))
