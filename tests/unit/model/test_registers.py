"""What is said apart from each other comes to the same everywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.registers import Author, Register, Registers, changed, contested, difference, merged, overruled

REGISTERS = st.builds(
    Register,
    name=st.sampled_from(["reserved", "mode", "attached/topic a*:b*", "settings/limits"]),
    value=st.sampled_from(["true", "false", '"sync"', '"async"', "7"]),
    version=st.integers(1, 3),
    at_ms=st.integers(0, 3),
    by=st.sampled_from(["anna", "ben"]),
    where=st.sampled_from(["A", "B"]),
)
VERSIONS = st.lists(REGISTERS, max_size=6).map(merged)


def author(by: str = "anna", at_ms: int = 1, where: str = "A") -> Author:
    return Author(by=by, at_ms=at_ms, where=where)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_merging_needs_no_order(one: Registers, other: Registers, third: Registers) -> None:
    """Versions come to the same in any order, in any grouping, and however often one is merged."""
    assert merged(one, other) == merged(other, one)
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(one, one) == one
    assert merged(merged(one, other), other) == merged(one, other)


@given(VERSIONS, VERSIONS)
def test_merging_invents_nothing(one: Registers, other: Registers) -> None:
    """What holds was said by somebody, and of each name there is one register."""
    held = merged(one, other)
    assert set(held) <= {*one, *other}
    assert [register.name for register in held] == sorted({register.name for register in (*one, *other)})


@given(VERSIONS, st.dictionaries(st.sampled_from(["reserved", "mode"]), st.sampled_from([True, False, "sync"])))
def test_who_has_seen_a_value_replaces_it(known: Registers, values: dict[str, object]) -> None:
    """A change holds over all its author knew, even where another clock is ahead, and repeating it changes nothing."""
    held = merged(known, changed(known, values, author(at_ms=0)))
    assert {name: register.said for register in held if (name := register.name) in values} == values
    assert changed(held, values, author(by="ben")) == ()


def test_changes_of_different_things_both_hold() -> None:
    """Two operators who are cut off from each other change different things: both are kept."""
    base = changed((), {"mode": "async", "reserved": False}, author())
    here = merged(base, changed(base, {"settings/limits": {"bytes_per_s": 7}}, author("anna")))
    there = merged(base, changed(base, {"reserved": True}, author("ben", where="B")))
    held = {register.name: register.said for register in merged(here, there)}
    assert held == {"mode": "async", "reserved": True, "settings/limits": {"bytes_per_s": 7}}
    assert overruled(here, merged(here, there)) == ()


def test_apart_from_each_other_consistency_wins() -> None:
    """Of two values said apart from each other that one holds that keeps more consistency, though it is older."""
    base = changed((), {"reserved": False, "attached/topic a*:b*": False, "deleted": True, "mode": "x"}, author())
    safe = {"reserved": True, "attached/topic a*:b*": True, "deleted": False, "mode": "sync"}
    loose = {"reserved": None, "attached/topic a*:b*": None, "deleted": None, "mode": "async"}
    here = merged(base, changed(base, safe, author("anna", at_ms=1)))
    there = merged(base, changed(base, loose, author("ben", at_ms=9, where="B")))
    held = merged(there, here)
    assert {register.name: register.said for register in held} == safe
    assert {own.by for own, _ in overruled(there, held)} == {"ben"}
    assert overruled(here, held) == ()


def test_what_somebody_else_said_meanwhile_is_told() -> None:
    """Of what is to have another value, and of nothing else; the same said twice is no contest."""
    seen = changed((), {"reserved": False, "mode": "async"}, author())
    ben = merged(seen, changed(seen, {"reserved": True}, author("ben", at_ms=2)))
    found = contested(seen, ben, {"reserved": "false"})
    assert found is not None
    assert found.as_news == "ben set reserved to true at 1970-01-01T00:00:00Z"
    assert contested(seen, ben, {"reserved": "true"}) is None
    assert contested(seen, ben, {"mode": '"sync"'}) is None
    assert contested(ben, ben, {"reserved": "false"}) is None
    assert contested((), ben, {"reserved": "false"}) == found


def test_a_difference_has_both_values() -> None:
    """Of what is said otherwise, and of what was not said before."""
    before, after = (changed((), values, author()) for values in ({"a": 1, "b": 2}, {"b": 3, "c": 4}))

    assert difference(before, after) == {"a": [1, None], "b": [2, 3], "c": [None, 4]}
    assert difference(before, before) == {}
