"""Which groups a link carries, and under which names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.naming import NameTemplate, PrefixNaming, TemplateNaming


def settings(*include: str, exclude: tuple[str, ...] = (), naming: PrefixNaming | None = None) -> GroupSettings:
    return GroupSettings(
        include=tuple(map(GroupPattern.parse, include)),
        exclude=tuple(map(GroupPattern.parse, exclude)),
        naming=naming or PrefixNaming(),
    )


def test_filters() -> None:
    """Nothing by default, exclusion wins, any name may be written, and our own groups are carried nowhere."""
    assert not settings().matches("a")
    assert not settings().is_configured
    assert settings("a*", exclude=("ab",)).matches("ac")
    assert not settings("a*", exclude=("ab",)).matches("ab")
    assert settings('группа "1"').matches('группа "1"')
    assert settings(r"/x\*/").matches("x*")
    assert not settings("*").matches("__isthmus.drill.1")
    assert settings("b", "a", "c*").literals == ("a", "b")


def test_groups_that_would_meet_are_told() -> None:
    """One position cannot be that of two groups: neither is carried, and others are."""
    naming = TemplateNaming(
        source=NameTemplate.parse("{tenant}-{instance}-{group}"), target=NameTemplate.parse("{tenant}-{group}")
    )
    found = replace(settings("*", exclude=("acme-3-billing",)), naming=naming).meeting(
        ["acme-1-billing", "acme-2-billing", "acme-3-billing", "acme-1-audit", "elsewhere"]
    )

    assert found.keys() == {"acme-1-billing", "acme-2-billing"}
    assert "acme-1-billing, acme-2-billing would all become acme-billing" in found["acme-1-billing"].message


def test_a_group_whose_name_leads_to_another_is_told() -> None:
    """Who came back by that name would come to the other group's position."""

    class Folding:
        def to_target(self, name: str) -> str | None:
            return name.lower()

        def to_source(self, name: str) -> str | None:
            return name

    found = replace(settings("*"), naming=Folding()).meeting(["Billing", "audit"])

    assert found.keys() == {"Billing"}
    assert "which is billing at the source" in found["Billing"].message


@pytest.mark.parametrize("text", ["", "//", "/(/"])
def test_impossible_patterns(text: str) -> None:
    """What can match no group is an error."""
    with pytest.raises(ConfigError):
        GroupPattern.parse(text)


@given(st.text(), st.text(max_size=5), st.text(max_size=5))
def test_names_come_back(name: str, source_prefix: str, target_prefix: str) -> None:
    """A naming is reversible; a name it has no counterpart for is not carried."""
    naming = PrefixNaming(source_prefix=source_prefix, target_prefix=target_prefix)
    renamed = naming.to_target(name)
    assert (renamed is None) == (not name.startswith(source_prefix))
    if renamed is not None:
        assert naming.to_source(renamed) == name
    assert settings("*", naming=naming).matches(name) == (renamed is not None and not name.startswith("__isthmus."))
