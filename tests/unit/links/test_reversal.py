"""Settings of a link that changes its direction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import PlanRefused
from isthmus.links.reversal import reversed_settings
from isthmus.model.namespace import NamespaceMap
from isthmus.model.text.patterns import NamePattern

MAPS = (
    NamespaceMap.parse("local-:remote-"),
    NamespaceMap.parse("same-"),
    NamespaceMap.parse("clicks:seen", is_exact=True),
    NamespaceMap.parse("app-:there-", "group"),
)


def behind(*texts: str, key: str = "topics.include", maps: tuple[NamespaceMap, ...] = MAPS) -> list[str]:
    """What a filter is on the way back."""
    found = reversed_settings({key: list(texts)}, maps)[key]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["local-orders", "same-orders", "clicks"], ["remote-orders", "same-orders", "seen"]),
        (["local-o*", "same-o*"], ["remote-o*", "same-o*"]),
        (["loc*"], ["remote-*"]),
        (["*"], ["remote-*", "same-*", "seen"]),
        (["c*", "clicks"], ["seen"]),
        (["elsewhere", "elsewhere*", "clicks2"], []),
        ([], []),
    ],
)
def test_filters_are_in_the_names_of_the_new_source(texts: list[str], wanted: list[str]) -> None:
    """Names and prefixes go through the map that holds them; what none holds has selected nothing."""
    assert behind(*texts) == wanted
    assert behind(*texts, key="topics.exclude") == wanted


def test_each_kind_goes_through_its_own_maps() -> None:
    """Groups through those of groups. What says nothing of names says the same of the same cluster."""
    settings = {
        "groups": {"include": ["app-a", "local-a"], "commit": False},
        "configs.exclude": ["local-a"],
        "source_login": "mirror",
        "properties.target.send.buffer.bytes": 4096,
        "limits.bytes_per_s": 5,
    }
    assert reversed_settings(settings, MAPS) == {
        "groups": {"include": ["there-a"], "commit": False},
        "configs.exclude": ["local-a"],
        "target_login": "mirror",
        "properties.source.send.buffer.bytes": 4096,
        "limits.bytes_per_s": 5,
    }


def test_a_regular_expression_is_kept_or_refused() -> None:
    """It is kept where names are the same on both sides; where they are not nobody knows what it is there."""
    assert behind("/a|b/", maps=(NamespaceMap.parse("same-"),)) == ["/a|b/"]
    with pytest.raises(PlanRefused, match=r"topics\.exclude is /local-\[ab\]/") as told:
        behind("/local-[ab]/", key="topics.exclude")
    assert "isthmus link update" in told.value.hint


@given(st.lists(st.text("loca-s_", max_size=7), max_size=3), st.text("loca-s_", min_size=1, max_size=9))
def test_the_same_is_selected(prefixes: list[str], name: str) -> None:
    """Whatever a filter selects under one name it selects under the other one, and nothing else."""
    maps = (NamespaceMap.parse("local-:a"), NamespaceMap.parse("s:local-"), NamespaceMap.parse("c:o", is_exact=True))
    texts = [f"{prefix}*" for prefix in prefixes] + [f"{prefix}" for prefix in prefixes if prefix]
    held = next((each for each in maps if each.source.holds(name)), None)
    there = None if held is None else held.to_target(name)
    if there is not None:
        selects = any(NamePattern.split(text).matches(name) for text in texts)
        assert any(NamePattern.split(text).matches(there) for text in behind(*texts, maps=maps)) == selects
