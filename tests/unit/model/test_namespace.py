"""Which names are in a namespace, and what a map of namespaces makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.namespace import Namespace, NamespaceKind, NamespaceMap, NamespaceNaming, contradictions

NAMES = st.text("ab_-", max_size=4)
SPACES = st.builds(Namespace, prefix=NAMES, is_exact=st.booleans()).filter(
    lambda each: each.prefix or not each.is_exact
)


def test_all_names_leave_out_those_with_an_underscore() -> None:
    """The namespace of all names holds none that begins with an underscore; one with that prefix does."""
    assert Namespace.of("").members(["b", "_schemas", "a"]) == ("a", "b")
    assert Namespace.of("_sch").members(["b", "_schemas", "a"]) == ("_schemas",)


def test_an_exact_namespace_is_one_name() -> None:
    """`local-clicks` alone, without `local-clicks2`."""
    assert Namespace.of("local-clicks", is_exact=True).members(["local-clicks", "local-clicks2"]) == ("local-clicks",)
    assert str(Namespace.of("local-clicks", is_exact=True)) == "local-clicks"
    assert str(Namespace.of("local-")) == "local-*"
    assert Namespace.of("local-*") == Namespace.of("local-")


def test_a_prefix_that_is_a_whole_name_may_not_be_meant() -> None:
    """Unless it is the only one, or a star or exactness says what is meant."""
    names = ["clicks", "clicks2", "clicks-eu", "views"]
    assert Namespace.of("clicks").beside(names) == ("clicks-eu", "clicks2")
    for space in (Namespace.of("clicks*"), Namespace.of("clicks", is_exact=True), Namespace.of("clicks-")):
        assert space.beside(names) == ()
    assert (Namespace.of("views").beside(names), Namespace.of("").beside(names)) == ((), ())


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [("a", "b", False), ("ab", "a", True), ("", "a", True), ("", "_a", False), ("_", "_a", True), ("a", "a", True)],
)
def test_overlap(one: str, other: str, overlap: bool) -> None:
    """A* and B* do not overlap, AB* and A* do (KIP-986); the namespace of all names holds no name with underscore."""
    assert Namespace.of(one).overlaps(Namespace.of(other)) is overlap
    assert Namespace.of(other).overlaps(Namespace.of(one)) is overlap


def test_kinds_never_overlap() -> None:
    """A topic and a group of the same name are two things."""
    assert not Namespace.of("a").overlaps(Namespace.of("a", "group"))


@given(SPACES, SPACES, NAMES)
def test_a_name_in_both_is_an_overlap(one: Namespace, other: Namespace, name: str) -> None:
    """Whenever a name is in two namespaces they are said to overlap."""
    if name and one.holds(name) and other.holds(name):
        assert one.overlaps(other)


@given(SPACES, SPACES, NAMES)
def test_a_map_goes_there_and_back(source: Namespace, target: Namespace, name: str) -> None:
    """What has a name at the target has the same name at the source again, where the target's namespace holds it."""
    each = NamespaceMap(source=source, target=Namespace(prefix=target.prefix, is_exact=source.is_exact))
    there = each.to_target(name)
    assert (there is None) == (not source.holds(name))
    if there is not None and each.target.holds(there):
        assert each.to_source(there) == name


@pytest.mark.parametrize(
    ("one", "other", "leads_back"),
    [
        ("a-", "a-", True),
        ("a-:x-", "x-:a-", True),
        ("", "team.", True),
        ("team.", "", True),
        (":east.", ":west.", False),
        ("a-:x-", "a-:x-", False),
        ("a-:x-", "x-:b-", False),
        ("a-", "b-", False),
    ],
)
def test_which_maps_lead_back(one: str, other: str, leads_back: bool) -> None:
    """Where a name goes there and comes back as itself, both namespaces would follow each other; two that add a prefix
    each do not.
    """
    there, back = NamespaceMap.parse(one), NamespaceMap.parse(other)
    assert (there.leads_back(back), back.leads_back(there)) == (leads_back, leads_back)


def test_a_naming_of_several_maps() -> None:
    """Every name goes by the map whose namespace holds it; others do not belong to the link."""
    naming = NamespaceNaming((NamespaceMap.parse("a-:x-"), NamespaceMap.parse("b:y", is_exact=True)))
    assert [naming.to_target(name) for name in ("a-1", "b", "b2", "c")] == ["x-1", "y", None, None]
    assert [naming.to_source(name) for name in ("x-1", "y", "y2", "a-1")] == ["a-1", "b", None, None]


def test_maps_that_contradict_each_other() -> None:
    """Two maps of a link may overlap on neither side, and both are named."""
    parse = NamespaceMap.parse
    assert list(contradictions([parse("a-:x-"), parse("b-:y-"), parse("a-:x-", "group")])) == []
    (told,) = contradictions([parse("a-:x-"), parse("a-1:y-")])
    assert told == "the topic namespaces a-* and a-1* of the source overlap (a-*:x-* and a-1*:y-*)"
    (told,) = contradictions([parse("a-:x-"), parse("b-:x-1")])
    assert "of the target overlap" in told


@pytest.mark.parametrize(
    ("text", "kind", "is_exact", "told"),
    [
        ("a b", "topic", False, "no topic's name begins with 'a b'"),
        ("__", "topic", False, "belong to Kafka"),
        ("x" * 250, "topic", False, "no topic's name begins"),
        ("", "group", True, "needs the name"),
        ("team-", "principal", False, "no principal's name begins with 'team-'"),
    ],
)
def test_what_can_be_no_namespace(text: str, kind: NamespaceKind, is_exact: bool, told: str) -> None:
    """A prefix that no name has is refused with the reason."""
    with pytest.raises(ConfigError, match=told):
        Namespace.of(text, kind, is_exact=is_exact)


def test_a_map_has_two_sides_at_most() -> None:
    """Three prefixes are no map."""
    with pytest.raises(ConfigError, match="no map of namespaces"):
        NamespaceMap.parse("a:b:c")
    assert str(NamespaceMap.parse("app-")) == "app-*:app-*"


def test_principals_have_their_type_before_them() -> None:
    """One prefix for both sides, or one in place of the other."""
    assert str(NamespaceMap.parse("User:team-", "principal")) == "User:team-*:User:team-*"
    renamed = NamespaceMap.parse("User:a-:User:b-", "principal")
    assert (renamed.to_target("User:a-x"), renamed.to_source("User:b-x")) == ("User:b-x", "User:a-x")
    with pytest.raises(ConfigError, match="no map of namespaces"):
        NamespaceMap.parse("User:a-:b-", "principal")
