"""Topics whose records have other offsets at the target: maps say what belongs together, all faults are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from isthmus.model.offsets import OffsetPolicy
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.links import Discrepancy, DiscrepancyKind, TopicVerdict
from testing.records.mapped import HandMade
from testing.records.pair import Pair
from testing.records.topics import SEPTEMBER, Given, compact, delete_records
from testing.records.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

RECORDS: Final = 60
AT: Final = 47


def records(begin: int = 0, end: int = RECORDS) -> list[Given]:
    """Records with everything a record may have."""
    return [Given(b"key-%d" % n, b"value %d" % n, [("h", b"%d" % n)], SEPTEMBER + n) for n in range(begin, end)]


def others(count: int) -> list[Given]:
    """Records that somebody else writes to the target."""
    return [Given(b"key-%d" % n, b"of others", [], SEPTEMBER) for n in range(count)]


class Mapped(HandMade):
    """A topic copied from `pair`'s source to its target."""

    def __init__(self, pair: Pair, stem: str, **configs: Any) -> None:
        self.name = pair.topic(stem, **configs)
        self._pair = pair
        super().__init__(pair.source, pair.target, self.name, self.name)

    def copy_all(self, change: Callable[[list[Given]], list[Given]] = list) -> None:
        """Copy all records in two parts, with records of others before, between and behind; `change` is done first."""
        self.at_target(others(4))
        self.copy(records(0, 25))
        self.at_target(others(7))
        self.copy(records(25, RECORDS), at_target=change(records())[25:])
        self.at_target(others(3))

    def verify(self, **options: Any) -> TopicVerdict:
        return self._pair.verify(self.name, link=self.name, **options)[self.name]


def changed(**change: Any) -> Callable[[list[Given]], list[Given]]:
    """Change one record."""
    return lambda given: [record._replace(**change) if n == AT else record for n, record in enumerate(given)]


def doubled(given: list[Given]) -> list[Given]:
    """One record comes twice, and so the last one does not come at all."""
    return [*given[: AT + 1], *given[AT:-1]]


def different(*fields: str, begin: int = AT, end: int = AT + 1) -> Discrepancy:
    return Discrepancy(
        kind=DiscrepancyKind.DIFFERENT,
        offset_begin=begin,
        offset_end=end,
        records=end - begin,
        fields=fields,
        target_offset=begin + 11,
    )


ALL: Final = ("key", "value", "headers", "timestamp")


@pytest.mark.parametrize(
    ("change", "findings"),
    [
        (list, []),
        (changed(value=b"value X"), [different("value")]),
        (changed(key=None), [different("key")]),
        (changed(timestamp=SEPTEMBER), [different("timestamp")]),
        (changed(headers=[]), [different("headers")]),
        (doubled, [different(*ALL, begin=AT + 1, end=RECORDS)]),
    ],
    ids=["nothing", "value", "key", "timestamp", "headers", "doubled"],
)
def test_what_was_done_to_copies_is_found(
    pair: Pair, change: Callable[[list[Given]], list[Given]], findings: list[Discrepancy]
) -> None:
    """With both offsets of the first record, and what differs in it; what others wrote is no matter of the link's."""
    made = Mapped(pair, "faulty")
    made.copy_all(change)
    made.told()
    verdict = made.verify()
    (partition,) = verdict.partitions
    assert list(partition.findings) == findings
    assert (verdict.is_equal, partition.records, verdict.offsets) == (not findings, RECORDS, OffsetPolicy.MAPPED)


def test_a_record_in_no_range_is_missing(pair: Pair) -> None:
    """Between ranges and behind them; what is still to come may be let pass as a lag."""
    made = Mapped(pair, "holes")
    made.copy(records(0, 10))
    made.at_source(records(10, 12))
    made.at_target(records(10, 12))
    made.copy(records(12, 20))
    made.at_source(records(20, 25))
    made.told()
    (partition,) = made.verify().partitions
    assert [(one.offset_begin, one.offset_end, one.target_offset) for one in partition.findings] == [
        (10, 12, None),
        (20, 25, None),
    ]
    assert (partition.missing, partition.extra, partition.different) == (7, 0, 0)
    lagging = made.verify(allow_lag=True)
    assert (lagging.missing, lagging.lag) == (2, 5)


def test_a_record_that_the_target_has_not_is_missing(pair: Pair) -> None:
    """Where the map says that there is one, and the target's log ends."""
    made = Mapped(pair, "short")
    made.copy(records(0, 10))
    made.at_source(records(10, 13))
    made.ranges.append(MappedRange(10, 10, 3))
    made.told()
    verdict = made.verify()
    assert (verdict.missing, verdict.extra, verdict.different) == (3, 0, 0)


def test_transactions_and_retention(pair: Pair) -> None:
    """What is aborted and control records are not copied; what either side has deleted is left out."""
    made = Mapped(pair, "committed")
    writing = TransactionalProducer(pair.source, made.name)
    ranges = []
    for begin, commit in ((0, True), (10, False), (20, True), (30, True)):
        given = records(begin, begin + 10)
        writing.send(made.name, given)
        writing.end(commit=commit)
        if commit:
            made.at_target(others(2))
            ranges.append(MappedRange(made.source_end, made.target_end, 10))
            made.at_target(given)
        made.source_end += 11
    made.ranges = ranges
    made.told()
    verdict = made.verify()
    assert (verdict.is_equal, verdict.records, verdict.left_out) == (True, 30, 10)
    delete_records(pair.target, made.name, 5)
    (partition,) = made.verify().partitions
    assert (partition.offset_begin, partition.records, partition.is_equal) == (3, 27, True)
    delete_records(pair.source, made.name, 25)
    (partition,) = made.verify().partitions
    assert (partition.offset_begin, partition.records, partition.is_equal) == (25, 17, True)
    delete_records(pair.target, made.name, made.target_end)
    assert made.verify().is_equal


def test_compaction_at_either_side(pair: Pair) -> None:
    """What one side lacks is cleaned where that side has its key later, be it from others, and missing where not."""
    made = Mapped(pair, "cleaned")
    made.copy(records(0, 10))
    others_writing = TransactionalProducer(pair.target, f"{made.name}-others")
    source_writing = TransactionalProducer(pair.source, f"{made.name}-source")
    # Control records stand where a cleaner has taken ours: of key-10, which others write later, and of key-11.
    for given in (others(1), records(10, 11)):
        made.at_source(records(made.source_end, made.source_end + 1))
        others_writing.send(made.name, given)
        others_writing.end(commit=True)
        made.ranges.append(MappedRange(made.source_end - 1, made.target_end + 1, 1))
        made.target_end += 2
    # And one at the source, where the target still has a record of key-14.
    source_writing.send(made.name, records(12, 13))
    source_writing.end(commit=True)
    made.source_end += 2
    made.at_source(records(14, 15))
    made.ranges.append(MappedRange(12, made.target_end, 3))
    made.at_target([*records(12, 13), records(14, 15)[0]._replace(value=b"earlier"), *records(14, 15)])
    made.told()
    for cluster in (pair.source, pair.target):
        compact(cluster, made.name)
    verdict = made.verify()
    (partition,) = verdict.partitions
    assert (partition.missing, partition.extra, partition.different, partition.cleaned) == (1, 0, 0, 2)
    (finding,) = partition.findings
    assert (finding.offset_begin, finding.target_offset) == (11, 13)


def test_a_topic_of_other_links_is_compared_as_it_is(pair: Pair) -> None:
    """A link without a map has the same offsets, whoever else mapped the topic."""
    name = pair.topic("same")
    pair.produce(name)
    pair.forge(name)
    other = HandMade(pair.source, pair.target, f"{name}-other", name)
    other.ranges = [MappedRange(0, 50, 10)]
    other.told()
    verdict = pair.verify(name, link=name)[name]
    assert (verdict.is_equal, verdict.offsets) == (True, OffsetPolicy.SAME)
