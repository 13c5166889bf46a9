"""Which offsets came from where, as a ledger tells."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.ledger.documents.kinds import (
    BeginningDocument,
    Document,
    MapDocument,
    ProvenanceDocument,
    TopicDocument,
    TransformDocument,
)
from isthmus.memory.leaving import endings, provenance
from isthmus.memory.links import LinkMemory
from isthmus.memory.provenance import _origins, _with_transforms
from isthmus.model.lane import LaneState
from isthmus.model.links.promotion import LeftPartition, Promotion, Verb
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.text.plain import plain

ID = uuid.UUID(int=7)
TOPIC = TopicDocument(
    link="l",
    source_topic=SourceTopic("a-1"),
    source_topic_id=uuid.UUID(int=1),
    target_topic=TargetTopic("x-1"),
    target_topic_id=ID,
    state="ACTIVE",
)
BEGUN = BeginningDocument(link="l", topic=TargetTopic("x-1"), topic_id=ID, begins=((0, 0), (1, 0)))
Ledger = dict[str, Document]


def held(*documents: Document) -> Ledger:
    """What the ledger says."""
    return {each.key: each for each in documents}


def left(ledger: Ledger, end: int, verb: Verb = "detach", link: str = "l", start: int = 0) -> Ledger:
    """The ledger after a link has let go of both partitions at an end."""
    partitions = tuple(
        LeftPartition(
            topic=TargetTopic("x-1"),
            partition=each,
            source_topic=SourceTopic("a-1"),
            target_begin=start,
            target_end=end,
            copied_end=end,
            missing_records=0,
        )
        for each in (0, 1)
    )
    found = Promotion(link=link, verb=verb, namespaces=(), partitions=partitions)
    known = LinkMemory(link, documents={key: each for key, each in ledger.items() if getattr(each, "link", "") == link})
    after = ledger | held(*provenance(found, known), *endings(found, known))
    return after if verb == "detach" else {key: each for key, each in after.items() if not key.startswith("topic/")}


def told(ledger: Ledger) -> list[tuple[int, int, int, str]]:
    """Partition, range and verb of all that is told."""
    return sorted(
        (each.partition, each.offset_begin, each.offset_end, each.verb) for each in _origins("west", "x-1", ID, ledger)
    )


def test_what_follows_again_is_a_range_of_its_own() -> None:
    """Detached, attached again and detached: each range begins where the one before ended, and none is open between."""
    ledger = held(TOPIC, BEGUN)
    assert told(ledger) == [(-1, 0, -1, "follows")]
    ledger = left(ledger, 20)
    assert told(ledger) == [(0, 0, 20, "detach"), (1, 0, 20, "detach")]
    assert told(left(ledger, 20)) == told(ledger), "a repeated verb says nothing else"
    ledger |= held(replace(BEGUN, begins=((0, 20), (1, 20))))
    assert told(ledger)[1::2] == [(0, 20, -1, "follows"), (1, 20, -1, "follows")]
    idle = left(ledger, 20, "promote")
    assert told(idle) == [(0, 0, 20, "promote"), (1, 0, 20, "promote")], "nothing came meanwhile"
    ledger = left(ledger, 30)
    assert told(ledger) == [(each, *rest, "detach") for each in (0, 1) for rest in ((0, 20), (20, 30))]


def test_what_was_written_here_is_no_copy() -> None:
    """Promoted at 20, written to up to 30, and following again by another link from there on."""
    ledger = left(held(TOPIC, BEGUN), 20, "promote")
    again, begun = replace(TOPIC, link="m"), replace(BEGUN, link="m", begins=((0, 30), (1, 30)))
    ledger = left(ledger | held(again, begun), 40, "promote", link="m")
    assert told(ledger) == [(each, *rest, "promote") for each in (0, 1) for rest in ((0, 20), (30, 40))]


def test_what_an_older_release_began_is_told_as_well_as_can_be() -> None:
    """It wrote down no beginnings: from the log's start on, or behind what the link let go of before."""
    assert told(held(TOPIC)) == [(-1, 0, -1, "follows")]
    ledger = left(held(TOPIC, replace(BEGUN, begins=((0, -1), (1, -1)))), 20, start=5)
    assert told(ledger) == [(0, 5, 20, "detach"), (1, 5, 20, "detach")]
    before: Ledger = {key: each for key, each in ledger.items() if isinstance(each, ProvenanceDocument | TopicDocument)}
    assert not [each for each in told(before) if each[3] == "follows"]
    assert told(left(before, 25, "failover"))[-1] == (1, 20, 25, "failover")


def test_a_topic_that_was_created_again_begins_anew() -> None:
    """What was written down is about the former one."""
    former = replace(BEGUN, topic_id=uuid.UUID(int=3), begins=((0, 50), (1, 50)))
    assert told(left(held(TOPIC, former), 20)) == [(0, 0, 20, "detach"), (1, 0, 20, "detach")]
    assert told(held(TOPIC, former)) == [(-1, 0, -1, "follows")]


def test_what_others_wrote_behind_a_lane_that_ended_did_not_come_by_its_link() -> None:
    """The range ends where the lane came to, and has no end where nobody knows that; such ranges stay apart too."""
    found = LeftPartition(
        topic=TargetTopic("x-1"),
        partition=0,
        source_topic=SourceTopic("a-1"),
        state=LaneState.FOREIGN_WRITE,
        target_begin=0,
        target_end=25,
        copied_end=20,
    )
    ledger = written(held(TOPIC, BEGUN), found)
    assert told(ledger) == [(0, 0, 20, "detach")]
    again = ledger | held(replace(BEGUN, begins=((0, 25),)))
    unknown = replace(found, state=LaneState.DIVERGED, target_end=40, copied_end=-1)
    ledger = written(again, unknown)
    assert told(ledger) == [(0, 0, 20, "detach"), (0, 25, -1, "detach")]
    assert told(written(ledger, unknown)) == told(ledger), "a repeated verb says nothing else"
    ledger = written(ledger | held(replace(BEGUN, begins=((0, 40),))), replace(unknown, target_end=50))
    assert told(ledger)[1:] == [(0, 25, -1, "detach"), (0, 40, -1, "detach")]
    ends = {plain(each)["offset_end"]: each.end_in_words for each in _origins("west", "x-1", ID, ledger)}
    assert ends == {20: "20", None: "unknown"}


def test_a_range_with_mapped_offsets_is_told_as_such() -> None:
    """While it follows and afterwards: records of others may lie between those that came."""
    mapped = replace(TOPIC, is_mapped=True)
    part = LeftPartition(
        topic=TargetTopic("x-1"),
        partition=0,
        source_topic=SourceTopic("a-1"),
        is_mapped=True,
        target_begin=0,
        target_end=25,
        copied_end=25,
    )
    for ledger in (held(mapped, BEGUN), written(held(mapped, BEGUN), part)):
        (origin,) = _origins("west", "x-1", ID, ledger)
        assert plain(origin)["offsets"] == "mapped"
    (origin,) = _origins("west", "x-1", ID, held(TOPIC, BEGUN))
    assert plain(origin)["offsets"] == "same"


def written(ledger: Ledger, *partitions: LeftPartition) -> Ledger:
    """The ledger after the link has detached these."""
    found = Promotion(link="l", verb="detach", namespaces=(), partitions=partitions)
    known = LinkMemory("l", documents=dict(ledger))
    return ledger | held(*provenance(found, known), *endings(found, known))


def test_the_transforms_of_changed_records_are_told() -> None:
    """From which offset at the target on each made them, in words if the link has it still."""
    now = Transform(where="key IS NOT NULL")
    topic = TargetTopic("x-1")
    made = [
        TransformDocument(
            link="l",
            topic=topic,
            partition=0,
            ordinal=at,
            transform=transform,
            source_offset=2 * at,
            target_offset=at,
            rewound=number,
            taken_at=number,
        )
        for number, (at, transform) in enumerate(((0, "0123"), (40, now.digest), (70, "")))
    ]
    cursor = Cursor(160, 80, 80, rewound=2)
    segment = MapDocument(link="l", topic=topic, partition=0, segment="1.0", ordinal_begin=0, ranges=(), cursor=cursor)
    ledger = held(replace(TOPIC, is_mapped=True), BEGUN, segment, *made)
    (origin,) = _origins("west", "x-1", ID, ledger)
    found = _with_transforms(origin, ledger, [now]).transforms
    assert [str(each) for each in found] == [
        "0123 (an earlier one) from 0: 0",
        f"{now.digest} (where key IS NOT NULL) from 0: 40",
        "none from 0: 70",
    ]
    ended = replace(origin, offset_end=70)
    assert len(_with_transforms(ended, ledger, [now]).transforms) == 2
    assert plain(found[2])["transform"] is None
