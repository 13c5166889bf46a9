"""Which parts of a partition one transform made each, and which can be made again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from isthmus.kafka.log.reading import OffsetRange
from isthmus.ledger.documents.transforms import TransformDocument
from isthmus.ledger.maps import LaneMap
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.transform import OnError, Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.recordfunction import FunctionSource, RecordFunction
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.translation import MappedRange, OffsetMap
from isthmus.spark.compare.links.extent import ComparedRange, ComparedSlice, TransformSpan
from isthmus.spark.compare.links.generations import LinkTransforms, cut_by_transform, transform_spans

EAST, WEST = (Cluster(alias=name, bootstrap_servers=("127.0.0.1:1",)) for name in ("east", "west"))
ORDERS = SourceTopic("orders")
RANGES = (MappedRange(0, 50, 10), MappedRange(20, 60, 30))
EXTENT = ComparedRange(
    source_topic=ORDERS,
    target_topic=TargetTopic("orders"),
    partition=0,
    offset_begin=0,
    offset_end=60,
    target_end=55,
    lane=LaneMap(OffsetMap(RANGES), Cursor(55, 40, 90)),
)


def written(source_offset: int, transform: str) -> TransformDocument:
    return TransformDocument(
        link="l",
        topic=TargetTopic("orders"),
        partition=0,
        ordinal=0,
        transform=transform,
        source_offset=source_offset,
        target_offset=0,
    )


def whole(*spans: TransformSpan) -> ComparedSlice:
    extent = replace(EXTENT, transforms=spans)
    return ComparedSlice(extent, OffsetRange("orders", 0, 0, 60), OffsetRange("orders", 0, 50, 90), 600, RANGES)


def test_the_present_transform_makes_what_is_still_to_come() -> None:
    """What was written down counts before the lane's place."""
    assert transform_spans([written(10, "one")], 55, "one") == (TransformSpan(0, ""), TransformSpan(10, "one"))
    assert transform_spans([written(10, "one")], 55, "two") == (
        TransformSpan(0, ""),
        TransformSpan(10, "one"),
        TransformSpan(55, "two"),
    )
    assert transform_spans([], 0, "one") == (TransformSpan(0, ""), TransformSpan(0, "one"))


def test_a_function_whose_source_is_not_known_is_called_neither_equal_nor_gone() -> None:
    """Whether its source was known when records were made, or is known now: both have to be, to make them again."""
    topics = TopicSettings(include=(TopicPattern.parse("*"),))
    with_source, without = (
        Transform(python=RecordFunction("rules", "clean", source=source)) for source in (FunctionSource("s", ()), None)
    )
    for now, then in ((with_source, without), (without, with_source)):
        link = Link(name="l", source=EAST, target=WEST, topics=topics, transforms=(now,))
        known = LinkTransforms.of(link, [ORDERS])
        assert "source may be another" in known.why_unknown(whole()._replace(transform=then.digest))
        assert known.why_unknown(whole()._replace(transform=now.digest)) == ""


def test_a_slice_is_cut_where_its_transform_changes() -> None:
    """Each part has its own of the map; parts outside of it are not made."""
    spans = TransformSpan(0, ""), TransformSpan(5, "one"), TransformSpan(5, "two"), TransformSpan(30, "one")
    parts = list(cut_by_transform(whole(*spans)))
    assert [(each.transform, each.source.offset_begin, each.source.offset_end) for each in parts] == [
        ("", 0, 5),
        ("two", 5, 30),
        ("one", 30, 60),
    ]
    assert [each.ranges for each in parts] == [
        (MappedRange(0, 50, 5),),
        (MappedRange(5, 55, 5), MappedRange(20, 60, 10)),
        (MappedRange(30, 70, 20),),
    ]
    assert list(cut_by_transform(whole())) == [whole()]


def test_a_transform_of_which_only_the_policy_was_changed_is_known() -> None:
    """It makes the same records. One with another version is not."""
    transform = Transform(where="true", version="1", on_error=OnError.SKIP)
    link: Any = cast(Any, type("L", (), {"transforms": (transform,), "transform_of": lambda *_: transform})())
    known = LinkTransforms.of(link, [ORDERS])
    assert known.current == {ORDERS: transform.digest}
    part = whole()._replace(transform=replace(transform, on_error=OnError.STOP).digest)
    assert known.why_unknown(part) == ""
    assert known.known[part.transform].on_error is OnError.STOP
    other = part._replace(transform=replace(transform, version="2").digest)
    assert "earlier transform" in known.why_unknown(other)
