"""The judge of changed records finds what is lost, doubled, made up, wrong or late, and nothing where all is right."""

from __future__ import annotations

import ast
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from soak.changed import functions
from soak.changed.judge import Course, judged_changed, judged_course
from soak.changed.rules import CHANGED, Fate, Row, as_it_is, rule_of
from soak.content import Style, made, record_id
from soak.judge.evidence import Lane, Log, Seen
from soak.judge.mapping import Pairing, Standing
from soak.judge.stored import Place, Segment, StoredMap, TopicIds

CHANGED_BY = Path(__file__).parents[2] / "soak" / "changed"
TOPIC_ID = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
RECORDS = 200
WRITTEN = 1_700_000_000_000
NOTHING: Mapping[str, str] = {}


def source(topic: str) -> list[Row]:
    """Records as the writers of a run make them, from offset 0 on."""
    is_json = "decode" in CHANGED[topic].mapping if topic in CHANGED else False
    style = Style(value_bytes=60, is_json=is_json, odd=0.2)
    records = (made(record_id("w", 0, number), style, WRITTEN + number) for number in range(RECORDS))
    return [
        Row(offset, each.key, each.value, tuple(each.headers), 1, each.timestamp) for offset, each in enumerate(records)
    ]


def letter(topic: str, row: Row, furthest: int, other: Mapping[str, str] = NOTHING) -> Row:
    """The dead letter of a record of partition 0."""
    told = {
        "kind": "dead-letter",
        "cluster": "source",
        "topic": topic,
        "topic-id": TOPIC_ID,
        "partition": "0",
        "offset": str(row.offset),
        "furthest": str(furthest),
        "leader-epoch": "0",
        "timestamp-type": "CreateTime",
        "transform": "0af3",
        "reason": "it failed",
        **other,
    }
    own = tuple((f"isthmus.{name}", value.encode()) for name, value in told.items())
    return row._replace(headers=(*row.headers, *own))


def course(topic: str) -> Course:
    """A partition in which everything is as it is to be."""
    rows, rule = source(topic), rule_of(topic)
    fates = [(row, rule(row)) for row in rows]
    failed = [row for row, fate in fates if fate is Fate.LETTER]
    return Course(
        topic=topic,
        partition=0,
        source=rows,
        target=[fate for _, fate in fates if isinstance(fate, Row)],
        letters=[letter(topic, row, row.offset) for row in failed],
        topic_id=TOPIC_ID,
    )


def found(given: Course) -> list[str]:
    """The short names of what is violated."""
    return [each.invariant.split()[0] for each in judged_course(given, rule_of(given.topic))]


@pytest.mark.parametrize("topic", [*CHANGED, "soak.plain"])
def test_what_is_as_it_is_to_be_is_no_violation(topic: str) -> None:
    """Every rule keeps some records; those with letters have some."""
    given = course(topic)
    assert found(given) == []
    assert given.target
    assert bool(given.letters) == (topic in {"soak.counted", "soak.checked"})


def _swapped(rows: Sequence[Row]) -> list[Row]:
    return [*rows[:5], rows[6], rows[5], *rows[7:]]


@pytest.mark.parametrize("topic", [*CHANGED, "soak.plain"])
@pytest.mark.parametrize(
    ("spoil", "violations"),
    [
        (lambda rows: [*rows[:5], *rows[6:]], ["C1"]),
        (lambda rows: rows[:-1], ["C1"]),
        (lambda rows: [*rows[:6], *rows[5:]], ["C2"]),
        (lambda rows: [*rows, rows[0]], ["C2"]),
        (_swapped, ["C5"]),
        (lambda rows: [rows[0]._replace(value=b"another"), *rows[1:]], ["C4"]),
        (lambda rows: [rows[0]._replace(key=b"another"), *rows[1:]], ["C4"]),
        (lambda rows: [rows[0]._replace(timestamp=1), *rows[1:]], ["C4"]),
        (lambda rows: [rows[0]._replace(headers=(*rows[0].headers, ("more", b""))), *rows[1:]], ["C4"]),
        (lambda rows: [*rows, Row(999, None, b"", (("id", b"w.0.99999"),), 1, WRITTEN)], ["C3"]),
        (lambda rows: [*rows, Row(999, None, b"", (), 1, WRITTEN)], ["C3"]),
    ],
    ids=["lost", "end lost", "double", "again", "order", "value", "key", "time", "header", "unknown", "nameless"],
)
def test_what_is_wrong_at_the_target_is_found(
    topic: str, spoil: Callable[[Sequence[Row]], list[Row]], violations: list[str]
) -> None:
    """Each kind of fault goes by its own name, in every topic."""
    given = course(topic)
    assert found(replace(given, target=spoil(given.target))) == violations


@pytest.mark.parametrize("topic", CHANGED)
def test_a_record_that_was_to_be_left_out_is_found(topic: str) -> None:
    """Whether by a condition, by an error, or because it is a letter."""
    given, rule = course(topic), rule_of(topic)
    gone = [row for row in given.source if isinstance(rule(row), Fate)]
    assert gone
    assert found(replace(given, target=[*given.target, gone[0]])) == ["C3"]


def test_a_record_as_it_came_is_found_where_it_was_to_be_changed() -> None:
    """A transform that was not applied is no copy."""
    given = course("soak.chosen")
    kept = {row.offset for row in given.target}
    assert found(replace(given, target=[row for row in given.source if row.offset in kept])) == ["C4"]


@pytest.mark.parametrize(
    ("spoil", "violations"),
    [
        (lambda letters: letters[1:], ["C7"]),
        (lambda letters: [*letters, letters[-1]], ["C7"]),
        (lambda letters: [letters[0]._replace(value=b"another"), *letters[1:]], ["C7"]),
        (lambda letters: [letters[0]._replace(headers=letters[0].headers[1:]), *letters[1:]], ["C7"]),
    ],
    ids=["lost", "double", "value", "header"],
)
@pytest.mark.parametrize("topic", ["soak.counted", "soak.checked"])
def test_letters_that_are_wrong_are_found(
    topic: str, spoil: Callable[[Sequence[Row]], list[Row]], violations: list[str]
) -> None:
    """They are the records as they were, each once."""
    given = course(topic)
    assert found(replace(given, letters=spoil(given.letters))) == violations


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "x"},
        {"cluster": "target"},
        {"topic": "soak.plain"},
        {"topic-id": "none"},
        {"partition": "1"},
        {"furthest": "100000"},
        {"leader-epoch": "-1"},
        {"timestamp-type": "LogAppendTime"},
        {"reason": ""},
    ],
    ids=lambda other: next(iter(other)),
)
def test_letters_with_wrong_coordinates_are_found(other: dict[str, str]) -> None:
    """All that a letter says of its record is compared."""
    given, rule = course("soak.counted"), rule_of("soak.counted")
    row = next(row for row in given.source if rule(row) is Fate.LETTER)
    wrong = letter(given.topic, row, row.offset, other)
    assert found(replace(given, letters=[wrong, *given.letters[1:]])) == ["C7"]


def test_a_letter_of_a_record_that_does_not_fail_is_found() -> None:
    """A record is either copied or a letter."""
    given = course("soak.counted")
    kept = given.source[given.target[0].offset]
    furthest = max(kept.offset, given.letters[-1].offset)
    assert found(replace(given, letters=[*given.letters, letter(given.topic, kept, furthest)])) == ["C7"]


def test_a_transaction_that_is_open_when_all_is_quiet_is_found() -> None:
    """It would keep whatever comes later from consumers of committed data."""
    assert found(replace(course("soak.plain"), is_open=True)) == ["C6"]


def test_the_functions_do_what_the_rules_say() -> None:
    """What the link is given and what the judge expects are written twice, and agree."""
    for topic, change in (("soak.turned", functions.turned), ("soak.checked", functions.checked)):
        for row in source(topic):
            rows = pa.RecordBatch.from_pydict(
                {"key": pa.array([row.key], pa.binary()), "value": pa.array([row.value], pa.binary())}
            )
            fate = rule_of(topic)(row)
            if fate is Fate.LETTER:
                with pytest.raises(ValueError, match="a sum that is not taken"):
                    change(rows)
                continue
            made = [(each["key"], each["value"]) for each in change(rows).to_pylist()]
            assert made == ([(fate.key, fate.value)] if isinstance(fate, Row) else [])


def _lane(given: Course, *, places: Sequence[Place]) -> Lane:
    """The partition as the judges of maps and groups know it; the target's records stand there from offset 0 on."""

    def log(rows: Sequence[Row], offsets: Sequence[int], visible: frozenset[int]) -> Log:
        records = tuple(
            Seen(offset=at, id=(row.headers[0][1] or b"").decode(), content=b"", key=None, is_null=False, is_sound=True)
            for at, row in zip(offsets, rows, strict=True)
        )
        end = max(offsets) + 1
        return Log(start=0, stable=end, high=end, records=records, visible=visible)

    kept = [row.offset for row in given.target]
    here = log(given.source, [row.offset for row in given.source], frozenset(kept))
    there = log(given.target, range(len(kept)), frozenset(range(len(kept))))
    pairing = Pairing(
        [Standing(each.offset, each.id) for each in here.records if each.offset in here.visible],
        [Standing(each.offset, each.id) for each in there.records],
        visible=here.visible,
        acked={},
        end=here.high,
    )
    none = TopicIds(uuid.UUID(int=0), uuid.UUID(int=0))
    segment = Segment(
        topic=given.topic,
        partition=0,
        name="map",
        places=tuple(places),
        source_next=here.high,
        target_next=there.high,
        number=there.high,
        taken_at=0,
        rewound=0,
        ids=none,
    )
    stored = StoredMap(segments=(segment,), claims=(segment,))
    return Lane(
        topic=given.topic, partition=0, source=here, target=there, keeps_offsets=False, pairing=pairing, stored=stored
    )


def _positions(topic: str, here: int, there: int) -> list[dict[str, Any]]:
    place = f"{topic}:0"
    return [
        {"kind": "phase", "at": 1.0, "name": "quiet"},
        {"kind": "commit", "at": 2.0, "phase": "done", "group": "g", "topic": topic, "partition": 0, "offset": here},
        {
            "kind": "positions",
            "at": 3.0,
            "final": True,
            "source": {"g": {place: here}},
            "target": {"g": {place: there}},
            "target_ends": {place: RECORDS},
        },
    ]


@pytest.mark.parametrize(
    ("apart", "violations"),
    [(0, []), (1, ["I14", "I15"]), (-1, ["I15"])],
    ids=["in step", "too far", "behind"],
)
def test_groups_stand_at_the_record_that_is_next(apart: int, violations: list[str]) -> None:
    """A position between two copied records is that of the later one."""
    given = course("soak.chosen")
    kept = [row.offset for row in given.target]
    number = next(n for n in range(1, len(kept)) if kept[n] > kept[n - 1] + 1)
    places = [Place(offset, at, 1) for at, offset in enumerate(kept)]
    events = _positions(given.topic, kept[number] - 1, number + apart)
    told = judged_changed(events, [given], rule_of, [_lane(given, places=places)])
    assert [each.invariant.split()[0] for each in told] == violations


def test_a_map_that_names_other_records_is_found() -> None:
    """One that says that a record which was left out stands where the next one does."""
    given = course("soak.chosen")
    kept = [row.offset for row in given.target]
    places = [Place(offset, at, 1) for at, offset in enumerate(kept)]
    number = next(n for n in range(1, len(kept)) if kept[n] > kept[n - 1] + 1)
    places[number] = places[number]._replace(source=kept[number] - 1)
    events = [{"kind": "phase", "at": 1.0, "name": "quiet"}]
    told = judged_changed(events, [given], rule_of, [_lane(given, places=places)])
    assert [each.invariant for each in told] == ["I9 stored map"]


def test_what_does_not_recover_or_says_so_is_found() -> None:
    """As are bugs and passwords in what was written."""
    events = [
        {"kind": "recovery", "at": 1.0, "problem": "late"},
        {"kind": "shown", "at": 2.0, "links": [{"link": "soak", "state": "BLOCKED", "problem": "x"}]},
        {"kind": "leak", "at": 3.0, "file": "run-1.log"},
        {"kind": "traceback", "at": 3.0, "file": "run-1.log", "said": "KeyError"},
    ]
    told = judged_changed(events, [course("soak.plain")], lambda _: as_it_is)
    assert [each.invariant.split()[0] for each in told] == ["I20", "I21", "C8", "C9"]


@pytest.mark.parametrize("name", ["judge.py", "rules.py"])
def test_the_judge_shares_no_code_with_the_product(name: str) -> None:
    """Nothing of what is judged is imported."""
    tree = ast.parse((CHANGED_BY / name).read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if module.partition(".")[0] == "isthmus"]
