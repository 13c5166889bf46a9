"""What has to hold of records that are changed on their way, or are written by a query: each once, as it is to be."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from soak.changed.rules import Fate, Row, Rule
from soak.content import identity_of
from soak.history import Event
from soak.judge.claims import i9_stored_map, i12_ledger_soundness
from soak.judge.evidence import Case, Lane, Violation
from soak.judge.health import i20_no_secret_leak, i21_no_bug
from soak.judge.positions import i14_no_overshoot, i15_no_undershoot
from soak.judge.timeline import Sufferings
from soak.trees.judge import recovered

_SHOWN: Final = 5
Rules = Callable[[str], Rule]
"""What has to become of the records of a topic."""
_LETTER: Final = "isthmus."


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A partition: what consumers of committed data see at the source, at the target, and of its dead letters.

    `is_open`: whether a transaction is still open at the target, which would keep later records from them.
    """

    topic: str
    partition: int
    source: Sequence[Row]
    target: Sequence[Row]
    letters: Sequence[Row] = ()
    topic_id: str = ""
    is_open: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def judged_changed(
    events: Iterable[Event], courses: Sequence[Course], rule_of: Rules, lanes: Sequence[Lane] = ()
) -> tuple[Violation, ...]:
    """Everything that does not hold. `lanes` are the same partitions, where a map is kept and groups are carried."""
    return tuple(_violations(Case(events=tuple(events), lanes=tuple(lanes)), courses, rule_of))


def _violations(case: Case, courses: Sequence[Course], rule_of: Rules) -> Iterator[Violation]:
    for course in courses:
        yield from judged_course(course, rule_of(course.topic))
    if case.lanes:
        sufferings = Sufferings(case.events)
        yield from i9_stored_map(case, sufferings)
        yield from i12_ledger_soundness(case, sufferings)
        yield from i14_no_overshoot(case)
        yield from i15_no_undershoot(case)
    yield from i20_no_secret_leak(case)
    yield from i21_no_bug(case)
    yield from recovered(case, "C8 recovery", "C9 shown")


def judged_course(course: Course, rule: Rule) -> Iterator[Violation]:
    """What does not hold of one partition."""
    fates = [(row, rule(row)) for row in course.source]
    wanted = [fate for _, fate in fates if isinstance(fate, Row)]
    yield from _each_once(course, wanted, course.target)
    yield from _unchanged_or_changed(course, wanted, course.target)
    yield from _in_order(course, wanted, course.target)
    yield from _letters(course, [row for row, fate in fates if fate is Fate.LETTER])
    if course.is_open:
        yield _found("C6 nothing open", course, [], "a transaction is open at the target when all is quiet")


def _each_once(course: Course, wanted: Sequence[Row], got: Sequence[Row]) -> Iterator[Violation]:
    """Each record that is to be there is, as often as at the source, and no other one is."""
    due, there = Counter(map(_id, wanted)), Counter(map(_id, got))
    known = set(map(_id, course.source))
    yield from _some("C1 complete", course, (due - there).elements(), "are not at the target")
    more = list((there - due).elements())
    yield from _some("C2 once", course, (each for each in more if each in due), "are there more often than they may")
    left_out = (each for each in more if each not in due and each in known)
    yield from _some("C3 nothing else", course, left_out, "are there that were to be left out")
    unknown = (each for each in more if each not in known)
    yield from _some("C3 nothing else", course, unknown, "are there that are not at the source")


def _unchanged_or_changed(course: Course, wanted: Sequence[Row], got: Sequence[Row]) -> Iterator[Violation]:
    """Key, value, headers and timestamp are what is to become of them, to the byte."""
    made = defaultdict[str, set[tuple[object, ...]]](set)
    for row in wanted:
        made[_id(row)].add(row.content)
    wrong = [_id(row) for row in got if _id(row) in made and row.content not in made[_id(row)]]
    yield from _some("C4 as they are to be", course, wrong, "are not as they are to be")


def _in_order(course: Course, wanted: Sequence[Row], got: Sequence[Row]) -> Iterator[Violation]:
    """Records stand in the order of the source."""
    places = defaultdict[str, deque[int]](deque)
    for place, row in enumerate(wanted):
        places[_id(row)].append(place)
    last, late = -1, list[str]()
    for row in got:
        # Of one that is there too often the further ones have no place.
        if left := places[_id(row)]:
            place = left.popleft()
            late += [_id(row)] if place < last else []
            last = max(last, place)
    yield from _some("C5 order", course, late, "came behind later ones")


def _letters(course: Course, wanted: Sequence[Row]) -> Iterator[Violation]:
    """Each record that fails is a dead letter once, as it was, and says where it stands at the source."""
    due = Counter(row.offset for row in wanted)
    told = [_coordinates(letter) for letter in course.letters]
    there = Counter(_number(each.get("offset")) for each in told)
    yield from _some("C7 letters", course, map(str, (due - there).elements()), "(offsets) are no dead letters")
    yield from _some("C7 letters", course, map(str, (there - due).elements()), "(offsets) are letters too many")
    rows = {row.offset: row for row in wanted}
    wrong, furthest = list[str](), -1
    for letter, each in zip(course.letters, told, strict=True):
        offset = _number(each.get("offset"))
        furthest = max(furthest, offset)
        if offset in rows and not _is_true(course, rows[offset], letter, each, furthest):
            wrong.append(str(offset))
    yield from _some("C7 letters", course, wrong, "(offsets) are letters that say something else than is so")


def _is_true(course: Course, row: Row, letter: Row, told: dict[str, str], furthest: int) -> bool:
    own = tuple(each for each in letter.headers if not each[0].startswith(_LETTER))
    expected = {
        "kind": "dead-letter",
        "cluster": "source",
        "topic": course.topic,
        "topic-id": course.topic_id,
        "partition": str(course.partition),
        "furthest": str(furthest),
        "timestamp-type": "CreateTime",
    }
    return (
        letter._replace(headers=own).content == row.content
        and letter.headers[: len(own)] == own
        and {name: told.get(name) for name in expected} == expected
        and told.get("reason", "") != ""
        and _number(told.get("leader-epoch")) >= 0
    )


def _coordinates(letter: Row) -> dict[str, str]:
    return {
        name.removeprefix(_LETTER): (value or b"").decode(errors="replace")
        for name, value in letter.headers
        if name.startswith(_LETTER)
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else -1


def _id(row: Row) -> str:
    return identity_of(row.headers) or f"no id at {row.offset}"


def _some(invariant: str, course: Course, ids: Iterable[str], what: str) -> Iterator[Violation]:
    if found := list(ids):
        yield _found(invariant, course, found, f"{len(found)} records {what}")


def _found(invariant: str, course: Course, witnesses: Sequence[str], message: str) -> Violation:
    shown = tuple(witnesses[:_SHOWN])
    return Violation(invariant=invariant, where=course.name, message=message, witnesses=shown)
