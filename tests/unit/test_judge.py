"""The judge of the soak finds every defect that is planted, and none where there is none."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from soak.judge.evidence import Lane, Log, Seen, fingerprint, paired
from soak.judge.mapping import Pairing, Standing
from soak.judge.records import RECORD_INVARIANTS
from soak.judge.trial import _issued
from soak.naming import TARGET_PREFIXES, Names

RECORDS = 200
JUDGE = Path(__file__).parents[2] / "soak" / "judge"


def record(offset: int, *, key: int | None = None, content: str = "", is_null: bool = False) -> Seen:
    """The record that belongs at an offset."""
    return Seen(
        offset=offset,
        id=f"w.0.{offset}",
        content=fingerprint(offset, content),
        key=fingerprint(offset if key is None else key),
        is_null=is_null,
        is_sound=True,
    )


def log(records: list[Seen], *, aborted: frozenset[int] = frozenset(), high: int = RECORDS) -> Log:
    """A log that holds these records and begins at 0."""
    visible = frozenset(each.offset for each in records) - aborted
    return Log(start=0, stable=high, high=high, records=tuple(records), visible=visible)


def lane(
    target: list[Seen],
    *,
    source: list[Seen] | None = None,
    keeps_offsets: bool = True,
    may_lack_aborted: bool = False,
    is_compacted: bool = False,
    gaps: tuple[tuple[int, int], ...] = (),
) -> Lane:
    """A partition whose source holds every record, every tenth of them aborted."""
    aborted = frozenset(range(0, RECORDS, 10))
    here = [record(offset) for offset in range(RECORDS)] if source is None else source
    return Lane(
        topic="t",
        partition=0,
        source=log(here, aborted=aborted),
        target=log(target, aborted=aborted),
        keeps_offsets=keeps_offsets,
        may_lack_aborted=may_lack_aborted,
        is_compacted=is_compacted,
        gaps=gaps,
    )


def broken(case: Lane) -> set[str]:
    """The invariants that do not hold, by their short names."""
    return {violation.invariant.split()[0] for invariant in RECORD_INVARIANTS for violation in invariant(case)}


def whole() -> list[Seen]:
    return [record(offset) for offset in range(RECORDS)]


def dropped(records: list[Seen]) -> None:
    del records[77]


def doubled(records: list[Seen]) -> None:
    records[77] = records[76]._replace(offset=77)


def swapped(records: list[Seen]) -> None:
    records[77], records[76] = records[76]._replace(offset=77), records[77]._replace(offset=76)


def altered(records: list[Seen]) -> None:
    records[77] = records[77]._replace(content=fingerprint("something else"))


def unsound(records: list[Seen]) -> None:
    records[77] = records[77]._replace(is_sound=False)


def strange(records: list[Seen]) -> None:
    records[77] = records[77]._replace(id="nobody.0.1")


def moved(records: list[Seen]) -> None:
    records[77:] = [each._replace(offset=each.offset + 1) for each in records[77:]]


@pytest.mark.parametrize(
    ("defect", "expected"),
    [
        (dropped, {"I1"}),
        (doubled, {"I3", "I5", "I9"}),
        (swapped, {"I4", "I9"}),
        (altered, {"I5"}),
        (unsound, {"I5"}),
        (strange, {"I2"}),
        (moved, {"I1", "I9"}),
    ],
)
def test_one_planted_defect_is_found(defect: Callable[[list[Seen]], None], expected: set[str]) -> None:
    """One record that is missing, doubled, swapped, altered, strange or moved breaks the invariants it should."""
    records = whole()
    assert broken(lane(records)) == set()
    defect(records)
    found = broken(lane(records))
    assert found & expected, found
    assert found <= expected | {"I6"}, found


def test_a_mirror_without_offsets_is_judged_by_ids() -> None:
    """Records that stand elsewhere are no fault of who claims no offsets; lost, doubled and late ones are."""
    shifted = [each._replace(offset=each.offset + 5) for each in whole()]
    visible = replace(log(shifted), visible=frozenset(each.offset for each in shifted if (each.offset - 5) % 10))
    assert broken(replace(lane([]), target=visible, keeps_offsets=False)) == set()
    for defect, expected in ((dropped, "I1"), (doubled, "I3"), (swapped, "I4")):
        records = whole()
        defect(records)
        assert expected in broken(lane(records, keeps_offsets=False)), expected


def mapped(records: list[Seen]) -> Lane:
    """The records of a source at a target where a stranger's stand between them, and where nothing is aborted."""
    stranger = record(0)._replace(id="stranger.0.0")
    placed = [each for one in records for each in (one, stranger._replace(id=f"stranger.{one.id}"))]
    there = [each._replace(offset=offset) for offset, each in enumerate(placed)]
    target = replace(log(there, high=len(there)), visible=frozenset(range(len(there))))
    strangers = frozenset(each.id for each in there if each.id and each.id.startswith("stranger"))
    found = replace(lane([]), target=target, keeps_offsets=False, may_lack_aborted=True)
    return replace(found, issued=strangers, foreign=strangers, pairing=paired(found.source, target, {}))


@pytest.mark.parametrize(
    ("defect", "expected"),
    [
        (dropped, {"I1"}),
        (doubled, {"I1", "I3", "I5"}),
        (swapped, {"I4"}),
        (altered, {"I5"}),
        (unsound, {"I5"}),
        (strange, {"I1", "I2"}),
    ],
)
def test_a_mapped_lane_is_judged_through_the_judges_own_map(
    defect: Callable[[list[Seen]], None], expected: set[str]
) -> None:
    """Committed records have to be there once and in order among those of strangers; an aborted one may not be."""
    records = [record(offset) for offset in range(RECORDS)]
    committed = [each for each in records if each.offset % 10]
    assert broken(mapped(committed)) == set()
    defect(records)
    found = broken(mapped([each for each in records if each.offset % 10]))
    assert found & expected, found
    assert found <= expected, found
    assert broken(mapped(whole())) == {"I6"}


def test_what_a_stranger_wrote_twice_is_no_copy_of_the_mirrors() -> None:
    """Its producer may send again what it has not heard of; a record of the source is not excused by that."""
    found = mapped([each for each in whole() if each.offset % 10])
    last, stranger = found.target.records[-2:]

    def with_more(*more: Seen) -> Lane:
        records = (*found.target.records, *more)
        return replace(found, target=replace(found.target, records=records))

    again = stranger._replace(offset=stranger.offset + 1)
    assert broken(with_more(again)) == set()
    assert broken(replace(with_more(again), foreign=frozenset())) == {"I3"}
    assert "I3" in broken(with_more(last._replace(offset=stranger.offset + 1)))


def test_who_sent_what_to_the_target_is_told_from_what_the_source_got() -> None:
    """Also what nobody heard of again; all of it is known."""
    events = [
        {"kind": "sent", "writer": "w", "topic": "t", "acked": [[0, 7, 30, 2]], "failed": []},
        {"kind": "stranger", "writer": "x", "topic": "t", "acked": [[0, 3, 40, 1]], "failed": [[0, 4, "late"]]},
    ]
    key = ("t", 0)
    assert _issued(events, "stranger") == {key: {"x.0.3", "x.0.4"}}
    assert _issued(events, "sent", "stranger") == {key: {"w.0.7", "w.0.8", "x.0.3", "x.0.4"}}


def test_a_mapped_target_has_to_hold_what_lies_behind_its_beginning() -> None:
    """What its retention took is no loss; the same records are one where its log still begins at 0."""
    left = mapped([each for each in whole() if each.offset % 10][40:])
    assert broken(left) == {"I1"}
    assert broken(replace(left, target=replace(left.target, start=1))) == set()


def test_records_alike_are_paired_in_their_order() -> None:
    """What stands at the source twice is at the target twice, the first one first."""
    source = [Standing(offset, each) for offset, each in enumerate("aba")]
    target = [Standing(7 + offset, each) for offset, each in enumerate("aba")]
    found = Pairing(source, target, visible=range(3), acked={}, end=3)
    assert found.pairs == ((7, 0, "a"), (8, 1, "b"), (9, 2, "a"))


@pytest.mark.parametrize("prefix", TARGET_PREFIXES.values())
def test_topics_of_a_run_go_by_their_names_at_the_source(prefix: str) -> None:
    """Whatever they are called at the target; others keep their names."""
    names = Names(prefix)
    assert names.called("soak.plain") == f"{prefix}plain"
    assert names.at_source(f"{prefix}plain") == "soak.plain"
    assert (names.called("heartbeats"), names.at_source("heartbeats")) == ("heartbeats", "heartbeats")


def test_aborted_records_that_show_are_found() -> None:
    """A record that is aborted at the source and visible at the target is a leak; the other way round it is hidden."""
    records = whole()
    everything = replace(log(records), visible=frozenset(range(RECORDS)))
    assert broken(replace(lane(records), target=everything)) == {"I6"}
    nothing = replace(log(records), visible=frozenset())
    assert broken(replace(lane(records), target=nothing)) == {"I6"}


def test_aborted_records_may_be_lacking_where_that_is_said() -> None:
    """All of them or some; a committed one may not."""
    committed = [each for each in whole() if each.offset % 10]
    assert broken(lane(committed)) == {"I1"}
    assert broken(lane(committed, may_lack_aborted=True)) == set()
    assert broken(lane(committed[:45] + whole()[50:], may_lack_aborted=True)) == set()
    assert broken(lane(committed[1:], may_lack_aborted=True)) == {"I1"}


def test_gaps_excuse_exactly_what_they_cover() -> None:
    """Records in a reported gap may be missing; one beside it may not."""
    records = [each for each in whole() if not 50 <= each.offset < 60]
    assert broken(lane(records, gaps=((50, 60),))) == set()
    assert broken(lane(records, gaps=((50, 59),))) == {"I1"}
    assert broken(lane(records, gaps=((51, 60),))) == {"I1"}


def test_compaction_may_take_only_what_is_obsolete() -> None:
    """A record of a compacted topic may be gone if a later one has its key; the last one of a key may not."""
    source = [record(offset, key=offset % 5) for offset in range(1, RECORDS)]
    latest = source[-5:]
    assert broken(lane(latest, source=source, is_compacted=True)) == set()
    assert broken(lane(latest[1:], source=source, is_compacted=True)) == {"I1", "I18"}
    assert broken(lane(latest, source=source, is_compacted=False)) == {"I1"}


def test_a_target_that_is_ahead_is_found() -> None:
    """The target does not end behind the source, unless the source lost its end: what was issued is no phantom then."""
    here = [record(offset) for offset in range(150)]
    ahead = lane(whole(), source=here)
    short = replace(ahead, source=replace(ahead.source, high=150, stable=150))
    assert broken(short) == {"I2", "I9"}
    issued = frozenset(each.id for each in whole() if each.id is not None)
    assert broken(replace(short, suffered=frozenset({"source truncated"}), issued=issued)) == set()


def test_what_stands_behind_a_strangers_record_is_its_fault() -> None:
    """Records that were on their way when somebody else wrote come behind that; those before are where they belong."""
    here = [record(offset) for offset in range(150)]
    there = [
        *here[:100],
        record(100)._replace(id=None),
        *(each._replace(offset=each.offset + 1) for each in here[100:110]),
    ]
    written = replace(lane(there, source=here), target=log(there, high=111), source=log(here, high=150))
    assert "I9" in broken(written)
    assert broken(replace(written, suffered=frozenset({"foreign write"}))) & {"I2", "I9"} == set()
    early = [
        each._replace(offset=each.offset + 1) if each.offset == 50 else each for each in there if each.offset != 51
    ]
    earlier = replace(written, target=log(early, high=111), suffered=frozenset({"foreign write"}))
    assert "I9" in broken(earlier)


def test_the_judge_shares_no_code_with_the_product() -> None:
    """Nothing of the judge imports Isthmus, nor what is built on it."""
    for file in JUDGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith(("isthmus", "tests")), f"{file.name} imports {name}"
                if name.startswith("soak"):
                    assert name.startswith(("soak.judge", "soak.content", "soak.history", "soak.naming")), (
                        f"{file.name}: {name}"
                    )
