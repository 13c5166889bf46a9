"""What is said apart from each other comes to the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from isthmus.ledger.documents.kinds import DeclarationDocument, decode_document, encode_document
from isthmus.model.registers import (
    Author,
    LastSeen,
    Register,
    Registers,
    change_registers,
    difference,
    find_contested,
    find_overruled,
    merge_registers,
)

NAMES = ("reserved", "mode", "attached/topic a*:b*")
CLUSTERS = ("A", "B", "C")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(CLUSTERS),
        st.sets(st.sampled_from(CLUSTERS)),
        st.sampled_from(NAMES),
        st.sampled_from([True, False, "sync", 7]),
        st.integers(0, 3),
    ),
    max_size=8,
)
"""Where something is said, which other clusters can be reached from there and learn of it, what, and when by a clock.
"""


def author(by: str = "anna", at_ms: int = 1, where: str = "A") -> Author:
    return Author(by=by, at_ms=at_ms, where=where)


def older(registers: Registers) -> Registers:
    """As a release has them that does not know what authors had seen."""
    return tuple(replace(each, seen=None, beside=()) for each in registers)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Registers], list[Register]]:
    """What clusters knew at each moment, and all that was said; at first by an older release."""
    held: dict[str, Registers] = {}
    known: list[Registers] = [()]
    words: list[Register] = []
    before = draw(st.integers(0, 6))
    for step, (where, reached, name, value, at_ms) in enumerate(draw(STEPS)):
        seen = merge_registers(*(held.get(each, ()) for each in {where, *reached}))
        new = change_registers(seen, {name: value}, author(f"operator {step}", at_ms, where))
        if step < before:
            new, seen = older(new), older(seen)
        words += new
        held |= dict.fromkeys({where, *reached}, merge_registers(seen, new))
        known.append(held[where])
    return known, words


@given(histories(), st.data())
def test_merging_needs_no_order(history: tuple[list[Registers], list[Register]], data: st.DataObject) -> None:
    """Versions come to the same in any order, in any grouping, and however often one is merged."""
    each = st.lists(st.sampled_from(history[0]), min_size=1, max_size=2)
    one, other, third = (merge_registers(*data.draw(each)) for _ in range(3))
    assert merge_registers(one, other) == merge_registers(other, one)
    assert merge_registers(merge_registers(one, other), third) == merge_registers(one, merge_registers(other, third))
    assert merge_registers(one, one) == one
    assert merge_registers(merge_registers(one, other), other) == merge_registers(one, other)
    assert [register.name for register in one] == sorted({register.name for register in one})


@given(histories())
def test_nothing_is_lost_that_nobody_had_seen(history: tuple[list[Registers], list[Register]]) -> None:
    """Of all that was said either somebody knew who spoke later, or it holds, or it is kept beside what holds; and what
    holds keeps more consistency than that, or is later.
    """
    held = merge_registers(*history[0])
    left = {word for register in held for word in register.words}
    said = {word for each in history[1] for word in each.words}
    assert left <= said
    for word in said - left:
        assert any(other.known.get(word.place.cluster, 0) >= word.version for other in said)
    for register in held:
        assert max(register.words, key=lambda word: word.rank) == register.words[-1]


@given(histories(), st.dictionaries(st.sampled_from(NAMES), st.sampled_from([True, False, "sync"])))
def test_who_has_seen_a_value_replaces_it(
    history: tuple[list[Registers], list[Register]], values: dict[str, object]
) -> None:
    """A change holds over all its author knew, even where another clock is ahead, and repeating it changes nothing."""
    known = merge_registers(*history[0])
    held = merge_registers(known, change_registers(known, values, author(at_ms=0, where="D")))
    assert {name: register.decoded for register in held if (name := register.name) in values} == values
    assert [each for each in find_overruled(held) if each[1].name in values] == []
    assert change_registers(held, values, author(by="ben")) == ()


def said_apart(*words: tuple[dict[str, Any], Author], base: Registers) -> Registers:
    """What comes of changes that were made one after the other by somebody who heard of nothing else."""
    return reduce(lambda held, word: merge_registers(held, change_registers(held, *word)), words, base)


def test_who_says_more_often_does_not_win_by_it() -> None:
    """One side changes its mind twice, the other one says once, later and apart from it, what keeps more consistency:
    that holds, and the last word of the first side is told with its author, from an older release's declaration on.
    """
    attached = "attached/topic a*:b*"
    base = older(change_registers((), {attached: False, "settings/limits": 1}, author()))
    often = said_apart(*(({attached: value}, author("anna", 2)) for value in (True, False)), base=base)
    often = said_apart(*(({"settings/limits": value}, author("anna", value)) for value in (7, 8)), base=often)
    once = said_apart(({attached: True, "settings/limits": 9}, author("ben", 9, "B")), base=base)
    held = merge_registers(often, once)
    assert {register.name: register.decoded for register in held} == {attached: True, "settings/limits": 9}
    assert [(own.by, own.decoded, other.by) for own, other in find_overruled(held)] == [
        ("anna", False, "ben"),
        ("anna", 8, "ben"),
    ]
    # Whoever knows of both settles it, whichever it is to be.
    settled = merge_registers(held, change_registers(held, {attached: True, "settings/limits": 8}, author("kate", 1)))
    assert {register.name: register.decoded for register in settled} == {attached: True, "settings/limits": 8}
    assert find_overruled(settled) == ()
    assert merge_registers(settled, often, once) == settled


def test_a_ledger_keeps_what_was_said_apart() -> None:
    """As it was, and reads what an older release wrote."""
    base = change_registers((), {"mode": "async"}, author())
    here, there = (
        merge_registers(base, change_registers(base, {"mode": by}, author(by, where=by))) for by in ("anna", "ben")
    )
    document = DeclarationDocument(link="l", cluster="A", registers=merge_registers(here, there))
    assert decode_document(document.key, encode_document(document)) == document
    (register,) = document.registers
    assert register.seen == (LastSeen("A", 1),)
    assert len(register.beside) == 1
    written = (
        '{"schema_version":1,"link":"l","cluster":"A","registers":'
        '[{"name":"mode","value":"7","version":3,"at_ms":5,"by":"anna","where":"S"}]}'
    )
    told = decode_document(document.key, written.encode())
    assert isinstance(told, DeclarationDocument)
    (old,) = told.registers
    assert (old.seen, old.beside, dict(old.known)) == (None, (), {"": 2})


def test_changes_of_different_things_both_hold() -> None:
    """Two operators who are cut off from each other change different things: both are kept."""
    base = change_registers((), {"mode": "async", "reserved": False}, author())
    here = merge_registers(base, change_registers(base, {"settings/limits": {"bytes_per_s": 7}}, author("anna")))
    there = merge_registers(base, change_registers(base, {"reserved": True}, author("ben", where="B")))
    held = {register.name: register.decoded for register in merge_registers(here, there)}
    assert held == {"mode": "async", "reserved": True, "settings/limits": {"bytes_per_s": 7}}
    assert find_overruled(merge_registers(here, there)) == ()


def test_apart_from_each_other_consistency_wins() -> None:
    """Of two values said apart from each other that one holds that keeps more consistency, though it is older."""
    base = change_registers(
        (), {"reserved": False, "attached/topic a*:b*": False, "deleted": True, "mode": "x"}, author()
    )
    safe = {"reserved": True, "attached/topic a*:b*": True, "deleted": False, "mode": "sync"}
    loose = {"reserved": None, "attached/topic a*:b*": None, "deleted": None, "mode": "async"}
    here = merge_registers(base, change_registers(base, safe, author("anna", at_ms=1)))
    there = merge_registers(base, change_registers(base, loose, author("ben", at_ms=9, where="B")))
    held = merge_registers(there, here)
    assert {register.name: register.decoded for register in held} == safe
    assert {own.by for own, _ in find_overruled(held)} == {"ben"}


def test_what_somebody_else_said_meanwhile_is_told() -> None:
    """Of what is to have another value, and of nothing else; the same said twice is no contest."""
    seen = change_registers((), {"reserved": False, "mode": "async"}, author())
    ben = merge_registers(seen, change_registers(seen, {"reserved": True}, author("ben", at_ms=2)))
    found = find_contested(seen, ben, {"reserved": "false"})
    assert found is not None
    assert found.as_news == "ben set reserved to true at 1970-01-01T00:00:00Z"
    assert find_contested(seen, ben, {"reserved": "true"}) is None
    assert find_contested(seen, ben, {"mode": '"sync"'}) is None
    assert find_contested(ben, ben, {"reserved": "false"}) is None
    assert find_contested((), ben, {"reserved": "false"}) == found


def test_a_difference_has_both_values() -> None:
    """Of what is said otherwise, and of what was not said before."""
    before, after = (change_registers((), values, author()) for values in ({"a": 1, "b": 2}, {"b": 3, "c": 4}))

    assert difference(before, after) == {"a": [1, None], "b": [2, 3], "c": [None, 4]}
    assert difference(before, before) == {}
