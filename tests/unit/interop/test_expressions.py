"""Regular expressions of Java, said in Python."""

from __future__ import annotations

import re

import pytest

from isthmus.interop.expressions import NoEquivalent, python_expression


@pytest.mark.parametrize(
    ("java", "matching", "other"),
    [
        (r"orders\.v\d+", "orders.v12", "orders-v12"),
        (r"\Qa.b\E.*", "a.bc", "axbc"),
        (r"\Qa.b", "a.b", "axb"),
        (r"\p{Alpha}+", "abC", "ab1"),
        (r"\P{Digit}+", "ab", "a1"),
        (r"[\p{Lower}_.]+", "a_.b", "aB"),
        (r"(?<env>live|test)-\k<env>", "live-live", "live-test"),
        (r"a++b", "aab", "aac"),
        (r"(?>a|ab)c", "ac", "abc"),
        (r"(?i)orders", "OrDers", "order"),
        (r"(?i:O)rders", "orders", "ORDERS"),
        (r"(?!test).*", "live", "tester"),
        (r"a\z", "a", "ab"),
        (r"[a|b~c&-]+", "a|~&-", "d"),
        (r"[\Q]x\E]+", "]x", "a"),
        (r"\x41\u0042", "AB", "ab"),
        (r"a\-b\/c", "a-b/c", "ab"),
    ],
)
def test_the_same_names_match(java: str, matching: str, other: str) -> None:
    """What Java and Python write differently is translated, and what they write alike stays."""
    expression = python_expression(java)

    assert re.fullmatch(expression, matching)
    assert not re.fullmatch(expression, other)


@pytest.mark.parametrize(
    ("java", "reason"),
    [
        (r"\p{IsGreek}+", r"\p{IsGreek} is for Java only"),
        (r"\p{L}", r"\p{L} is for Java only"),
        (r"[\P{Alpha}]", r"\P{Alpha} is for Java only"),
        (r"\p", r"\p is for Java only"),
        (r"[a-z&&[^b]]", "the intersection"),
        (r"[a[bc]]", "within another"),
        (r"\Gab", r"\G is for Java only"),
        (r"\h", r"\h is for Java only"),
        (r"a(?i)b", "does not stand at the beginning"),
        (r"(?u)a", "the flags u"),
        (r"(?P<a>b)", "a way only Java may know"),
        (r"*", "Python cannot read it: nothing to repeat"),
        (r"(a", "Python cannot read it: missing )"),
        (r"(?<=a+)b", "look-behind"),
        (r"[abc", "no end"),
        (r"[]a]", "empty character class"),
        ("a\\", "ends in a backslash"),
        (r"\k{a}", "no name"),
        ("(" * 500 + ")" * 500, "Python cannot read it"),
        ("a{99999999999}", "Python cannot read it"),
    ],
)
def test_what_python_cannot_say_is_named(java: str, reason: str) -> None:
    """Nothing is guessed: the reason names what stands in the way."""
    with pytest.raises(NoEquivalent, match=re.escape(reason)):
        python_expression(java)
