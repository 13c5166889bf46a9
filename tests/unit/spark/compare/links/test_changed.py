"""What a transform makes of a slice, compared with the copies in one pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure
from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.links.transform import OnError
from isthmus.model.links.verdict import DiscrepancyKind
from isthmus.spark.compare.links.assembly import FINDINGS_MAX
from isthmus.spark.compare.links.changed import (
    ChangedFindings,
    ChangedSlice,
    CopyChecker,
    is_same_outcome,
    pack_offsets,
    unknown,
    unpack_offsets,
)

END = 100
COPIED_TO = 80
EPOCH = 4
SLICE = ChangedSlice(
    number=3,
    transform="one",
    on_error=OnError.SKIP,
    source_alias="east",
    source=OffsetRange("orders", 0, 0, END),
    target_alias="west",
    target=OffsetRange("orders", 0, 0, END),
    ranges=(),
    copied_to=COPIED_TO,
)
MISSING, EXTRA, DIFFERENT = DiscrepancyKind


def record(offset: int, value: bytes | None = b"v", timestamp: int = 1) -> Record:
    return Record(offset, timestamp, b"k", value, [("h", b"1")])


def failure(offset: int) -> Failure:
    return Failure(record(offset), "it is bad")


def check(
    made: Mapping[int, Changed],
    copies: Sequence[Record],
    part: ChangedSlice = SLICE,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    failure: str = "",
) -> tuple[ChangedFindings, CopyChecker]:
    checker = CopyChecker(part, iter(copies), deque(aborted))
    for offset, one in made.items():
        checker.take(offset, EPOCH, one)
    return checker.finish(failure), checker


def test_what_was_left_out_is_expected_to_be_absent() -> None:
    """Records that the transform leaves out, and those that it fails for and skips, are counted each."""
    found, _ = check({0: record(0), 1: None, 2: failure(2), 4: record(4)}, [record(0), record(4)])
    assert found == ChangedFindings(records=4, filtered=1, skipped=1)


def test_what_differs_is_named_with_its_fields() -> None:
    """Neighbours are one finding, with the fields of the first."""
    copies = [record(0, b"x"), record(1, None, timestamp=2), record(5)]
    found, _ = check({0: record(0), 1: record(1), 5: record(5)}, copies)
    (one,) = found.findings
    assert (one.kind, one.offset_begin, one.offset_end, one.records, one.fields) == (DIFFERENT, 0, 2, 2, ("value",))
    assert found.totals == {DIFFERENT: 2}


def test_what_only_one_side_has_is_missing_or_extra() -> None:
    """A copy of a record that the transform leaves out is as much too many as one of none."""
    found, checker = check({0: record(0), 2: None, 3: failure(3)}, [record(1), record(2), record(3), record(9)])
    assert found.totals == {MISSING: 1, EXTRA: 4}
    assert [(one.kind, one.offset_begin, one.offset_end) for one in found.findings] == [
        (MISSING, 0, 1),
        (EXTRA, 1, 4),
        (EXTRA, 9, 10),
    ]
    assert [(one.offset, one.key, one.is_tombstone) for one in checker.missing] == [(0, b"k", False)]


def test_copies_of_records_that_the_sources_cleaner_has_taken_are_no_difference() -> None:
    """The source has nothing there that a transform could leave out."""
    found, _ = check({2: None}, [record(1), record(2)], SLICE._replace(compacted=True))
    assert (found.cleaned, found.totals) == (1, {EXTRA: 1})


def test_a_record_that_stops_its_lane_is_unknown_before_its_place_and_missing_behind() -> None:
    """It was copied or left out when the transform did not fail for it, and nobody knows which."""
    part = SLICE._replace(on_error=OnError.STOP)
    found, _ = check({n: failure(n) for n in (0, 1, COPIED_TO)}, [record(0)], part)
    assert (found.not_compared, found.totals) == (2, {MISSING: 1})
    assert [str(one) for one in found.uncompared] == [
        "not comparable at offset 0: the transform fails for it now: it is bad",
        "not comparable at offset 1: the transform fails for it now: it is bad",
    ]


def test_only_what_the_source_aborted_is_no_work_of_its_cleaner() -> None:
    """A copy of it is too many, also in a compacted topic."""
    part = SLICE._replace(compacted=True)
    found, _ = check({9: None}, [record(n) for n in (1, 4, 5, 6, 12)], part, aborted=[(0, 1), (4, 6), (10, 13)])
    assert (found.cleaned, found.totals) == (2, {EXTRA: 3})


def test_a_second_comparison_lists_what_the_first_one_found_missing_and_nothing_else() -> None:
    """What is not made again has no key, which could prove that a cleaner took it: left out, failed for, or behind a
    failure of the whole transform.
    """
    part = SLICE._replace(on_error=OnError.STOP)
    first, checker = check({**{n: record(n) for n in range(4)}, COPIED_TO: failure(COPIED_TO)}, [record(1)], part)
    assert unpack_offsets(first.lacking) == [0, 2, 3, COPIED_TO]
    assert [each.offset for each in checker.missing] == [0, 2, 3, COPIED_TO]
    part = part._replace(lacking=first.lacking)
    again, checker = check({0: None, 1: record(1), 2: record(2), 3: failure(3)}, [], part, failure="it is away")
    assert {each.offset: each.key for each in checker.missing} == {0: None, 2: b"k", 3: None, COPIED_TO: None}
    assert again.not_compared == 1 + END - 4


def test_missing_records_without_a_key_delete_none() -> None:
    """A log cleaner removes what deletes a key."""
    _, checker = check({0: record(0, None), 1: record(1, None)._replace(key=None)}, [])
    assert [each.is_tombstone for each in checker.missing] == [True, False]


def test_offsets_are_packed() -> None:
    """Runs take next to nothing."""
    assert unpack_offsets(pack_offsets([])) == []
    offsets = [3, 4, 900, 2**40]
    assert unpack_offsets(pack_offsets(offsets)) == offsets
    size = len(pack_offsets(range(5, 100_000)))
    assert size < 2_000


def test_what_was_found_before_a_failure_of_the_transform_stays() -> None:
    """Only the rest cannot be compared."""
    found, _ = check({0: record(0), 3: record(3)}, [record(3, b"x"), record(7)], failure="it is away")
    assert (found.records, found.totals, found.not_compared) == (2, {MISSING: 1, DIFFERENT: 1}, END - 4)
    assert [str(one) for one in found.uncompared] == ["not comparable at offsets 4 to 99: it is away"]


def test_a_dead_letter_stays_one_whatever_the_transform_makes_of_it_now() -> None:
    """It is skipped, before the lane's place and behind it; the letter of another record that stood there is none."""
    letters = frozenset({(1, EPOCH), (2, EPOCH), (3, EPOCH - 1), (COPIED_TO, EPOCH)})
    part = SLICE._replace(on_error=OnError.DEAD_LETTER, letters=letters)
    made: dict[int, Changed] = {1: record(1), 2: failure(2), 3: record(3), COPIED_TO: failure(COPIED_TO)}
    found, _ = check(made, [], part)
    assert (found.skipped, found.totals) == (3, {MISSING: 1})
    assert found.findings[0].offset_begin == 3


def test_a_copy_of_a_dead_letter_is_too_much() -> None:
    """It was left out by one owner of its lane, and copied by another one."""
    part = SLICE._replace(on_error=OnError.DEAD_LETTER, letters=frozenset({(1, EPOCH), (2, EPOCH)}))
    found, _ = check({0: record(0), 1: record(1), 2: failure(2)}, [record(0), record(1)], part)
    assert (found.skipped, found.totals) == (2, {EXTRA: 1})
    assert found.findings[0].offset_begin == 1


def test_a_record_that_is_neither_copied_nor_a_dead_letter_is_missing() -> None:
    """Its lane stops before it, and copies nothing behind."""
    part = SLICE._replace(on_error=OnError.DEAD_LETTER)
    found, _ = check({5: failure(5), COPIED_TO: failure(COPIED_TO)}, [], part)
    assert (found.skipped, found.totals) == (0, {MISSING: 2})


def test_what_may_be_a_dead_letter_that_cannot_be_read_is_unknown() -> None:
    """Only what the lane has not reached is missing for certain."""
    part = SLICE._replace(on_error=OnError.DEAD_LETTER, unread="there is no right to READ")
    found, checker = check({0: record(0), 1: failure(1), 2: None, COPIED_TO: record(COPIED_TO)}, [], part)
    assert (found.not_compared, found.filtered, found.totals) == (2, 1, {MISSING: 1})
    assert str(found.uncompared[0]) == (
        "not comparable at offset 0: the target lacks it, and it may be a dead letter: there is no right to READ"
    )
    assert [each.offset for each in checker.missing] == [COPIED_TO]


def test_findings_are_bounded_and_all_are_counted() -> None:
    """Of each kind there are as many as a verdict names."""
    found, checker = check({n: record(n) for n in range(0, END, 2)}, [])
    assert (len(found.findings), found.totals) == (FINDINGS_MAX, {MISSING: END // 2})
    assert found.findings[-1].offset_end == 2 * FINDINGS_MAX - 1
    assert len(checker.missing) == END // 2


def test_outcomes_are_compared_by_what_becomes_of_a_record() -> None:
    """Where it lies does not matter, nor the words of a failure."""
    assert is_same_outcome(record(1), record(2))
    assert not is_same_outcome(record(1), record(1, b"x"))
    assert not is_same_outcome(record(1), None)
    assert is_same_outcome(failure(1), failure(1)._replace(reason="at 0x7f"))
    assert is_same_outcome(None, None)


def test_a_slice_of_which_nothing_is_known_is_not_compared() -> None:
    """All its offsets are named, with the reason."""
    found = unknown(SLICE.source, "it is away")
    assert found == replace(ChangedFindings(), not_compared=END, uncompared=found.uncompared)
    assert str(found.uncompared[0]) == "not comparable at offsets 0 to 99: it is away"
