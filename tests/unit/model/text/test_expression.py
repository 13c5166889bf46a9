"""Regular expressions are matched in bounded time, with the answers of Python's own."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.text.expression import TooLarge, Unbounded, build_simulator, matcher
from isthmus.model.text.patterns import NamePattern

ATOMS: Final = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "-", "^", "$", "(?i:A)", "(?i:İ)", r"\.", ""]
)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of others: one behind another, one or another, repeated."""
    repeats = st.sampled_from(["*", "+", "?", "*?", "{0,2}", "{,2}", "{2}", "{1,}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, repeats).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


@given(st.recursive(ATOMS, grown, max_leaves=8), st.text("aAb-.1\n\xa0éi٣", max_size=6))
def test_the_answer_is_that_of_python(text: str, name: str) -> None:
    """Whether an expression goes back and tries again or is followed in all its ways, the same names match."""
    found = build_simulator(text)(name)
    assert found == (re.fullmatch(text, name) is not None)
    assert matcher(text)(name) == found


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+b",
        "(a|a)*b",
        "(a|aa)+$",
        "((a*)*)*b",
        "(.*)*x",
        "(a?){200}a{200}",
        ".*.*.*.*.*.*.*b",
        "a?" * 60 + "a" * 220,
        "a{0,16}" * 16 + "b",
        "(a|aa)" * 60 + "b",
        "(?i)(A+)+B",
        "([a-z]+)*[0-9]",
    ],
)
def test_no_expression_takes_for_ever(text: str) -> None:
    """What would take Python longer than there is time is answered for the longest name that a topic has."""
    pattern = NamePattern.split(f"/{text}/")
    assert not pattern.matches("a" * 248 + "!")


def test_a_long_name_of_a_group_takes_no_longer() -> None:
    """Each repeat but one would multiply the time by the length of the name: up to 32,767 characters."""
    matches = matcher(".*-.*-.*x")

    assert not matches("-" * 32_767)
    assert matches("-" * 32_766 + "x")
    assert matches("a-b-x")


def test_a_long_name_matches_nothing_that_cannot_be_bounded() -> None:
    """What looks around cannot be followed in all its ways: it is for names as short as those of topics."""
    matches = matcher("(?!internal).*-.*-.*")

    assert matches("a" + "-" * 248)
    assert not matches("a" + "-" * 249)


@pytest.mark.parametrize("text", [r"(a+)+\1", "(?=(a+)+b).*", "((a{1,40}){1,40}){1,40}", "(?>a+)+(a|b)*b", r"(a+)+\bb"])
def test_what_cannot_be_bounded_is_refused(text: str) -> None:
    """Looking around or back, or too large a number of repeats, is refused where it could take for ever."""
    with pytest.raises(ConfigError, match="could take for ever") as refused:
        NamePattern.split(f"/{text}/")
    assert "[ab]+" in str(refused.value.hint)


def test_looking_around_alone_is_pythons_own() -> None:
    """Expressions without a choice within a repeat are left as they are."""
    assert matcher("(?!internal).*-orders")("eu-orders")
    assert not matcher("(?!internal).*-orders")("internal-orders")
    with pytest.raises(Unbounded):
        matcher(r"(?m)(^a+)+$")


@pytest.mark.parametrize(
    "text",
    [
        "(?:(){4294967290}|a)+",
        "(?:(?:(?:){1000}){1000}){1000}",
        "a{99999999999999}",
        "a{1001}",
        "a{0,1001}",
        "a{1001,}",
        "(" * 3000 + ")" * 3000,
        "a" * 50_001,
        "(?i)" + "[\x00-\uffff]" * 300,
    ],
    ids=["empty", "nested", "overflow", "exactly", "at most", "at least", "deep", "long", "ranges"],
)
def test_of_what_is_too_large_nothing_is_made(text: str) -> None:
    """It is refused at once, as what was written wrongly: neither built, nor tried, nor told as a bug."""
    with pytest.raises(TooLarge):
        matcher(text)
    with pytest.raises(ConfigError, match="is too large") as refused:
        NamePattern.split(f"/{text}/")
    assert len(refused.value.message) < 500


def test_what_somebody_may_have_written_is_no_larger_than_it_may_be() -> None:
    """A thousand names one or another, and names as long as they can be."""
    names = "|".join(f"application-{number}\\.events" for number in range(1000))
    assert matcher(names)("application-999.events")
    assert matcher(r"([a-z0-9]{1,249}\.){1,4}x")("a.b.c.x")
    assert matcher("[\\x00-\\U0010ffff]{0,249}")("a")
