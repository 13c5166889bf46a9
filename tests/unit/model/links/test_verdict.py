"""How verifications are shown."""

from __future__ import annotations

from isthmus.model.links.verdict import (
    Discrepancy,
    DiscrepancyKind,
    PartitionVerdict,
    TopicVerdict,
    Verdict,
    Verdicts,
)
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import plain


def verdict(*missing: int) -> Verdict:
    """A topic each, with so many records missing of ten."""
    topics = []
    for number, count in enumerate(missing):
        finding = Discrepancy(kind=DiscrepancyKind.MISSING, offset_begin=0, offset_end=count, records=count)
        partition = PartitionVerdict(
            partition=0,
            offset_begin=0,
            offset_end=10,
            records=10,
            size_bytes=700,
            missing=count,
            findings=(finding,) if count else (),
        )
        name = f"topic-{number}"
        topics.append(
            TopicVerdict(source_topic=SourceTopic(name), target_topic=TargetTopic(name), partitions=(partition,))
        )
    return Verdict(source="east", target="west", topics=tuple(topics))


def test_verdicts_are_a_table_of_topics() -> None:
    """With what was found, and a title that has all links; they remain a dictionary, also as JSON."""
    found = Verdicts({"forth": verdict(0, 3), "back": verdict(0)})
    text = str(found)
    assert text.splitlines()[0] == (
        "forth: east and west DIFFER: 20 records compared; back: east and west hold the same: 10 records compared"
    )
    assert "topic-1-0: missing at offsets 0 to 2" in " ".join(text.split())
    assert "topic-1-0: missing at offsets 0 to 2" in repr(found)
    assert found["back"].equal
    assert plain(found) == {name: each.as_dict() for name, each in found.items()}
    assert "DIFFER" in found._repr_html_()


def test_one_verdict_is_a_table_too() -> None:
    """Without a link's name, which it does not know."""
    assert str(verdict(0)).splitlines()[0] == "east and west hold the same: 10 records compared"
