"""Declared links in files."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from isthmus.config.manifest import read_manifest
from isthmus.errors import ConfigError
from isthmus.memory.declared import DeclaredLink
from isthmus.model.links.declaration import SOURCE, TARGET, Declaration, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import MODE, SETTINGS, Register
from isthmus.model.text.plain import plain

MAPS = (
    NamespaceMap.parse("local-:remote-"),
    NamespaceMap.parse("clicks:hits", is_exact=True),
    NamespaceMap.parse("app-", "group"),
)


def test_what_is_described_can_be_created() -> None:
    """A described link, as YAML or JSON, is read as the link it is."""
    said = {
        SOURCE: {"cluster_id": "S", "alias": "east"},
        TARGET: {"cluster_id": "T", "alias": "west"},
        MODE: "async",
        f"{SETTINGS}limits.bytes_per_s": 1000,
        f"{SETTINGS}topics.exclude": ["a*", "b"],
        f"{SETTINGS}on_data_gap": None,
        **dict.fromkeys(map(attachment, MAPS), True),
        attachment(NamespaceMap.parse("gone-")): False,
    }
    registers = tuple(
        Register(name=name, value=json.dumps(value), version=1, at_ms=5, by="anna", where="S")
        for name, value in said.items()
    )
    described = plain(DeclaredLink(declaration=Declaration(name="orders", registers=registers)))
    for text in (yaml.safe_dump(described, sort_keys=False), json.dumps(described)):
        found = read_manifest(text, "link.yaml")
        assert (found.name, found.source, found.target, found.mode) == ("orders", "east", "west", "async")
        assert found.maps == MAPS
        assert found.settings == {"limits.bytes_per_s": 1000, "topics.exclude": ["a*", "b"]}
        assert found.cluster_ids == {"east": "S", "west": "T"}


def test_the_shortest_one() -> None:
    """Aliases are enough; one prefix stands for both sides."""
    found = read_manifest("{link: l, source: east, target: west, attached: [{source: a-}]}", "l.yaml")
    assert (found.maps, found.cluster_ids, found.settings) == ((NamespaceMap.parse("a-"),), {}, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a", "l.yaml:1 is no section"),
        ("source: east\ntarget: west", "link is missing"),
        ("link: l\nsource: east", "target is missing"),
        ("link: l\nsource: {alias: 5}\ntarget: west", r"l.yaml:2: source\.alias is no text"),
        ("link: l\nsource: east\ntarget: west\nsetings: {}", "l.yaml:4: setings is not known"),
        ("link: l\nsource: east\ntarget: west\nattached: x", "attached is no list"),
        ("link: l\nsource: east\ntarget: west\nattached: [{kind: colour, source: x}]", r"attached\[0\]\.kind"),
        ("link: l\nsource: east\ntarget: west\nattached: [{exact: 7, source: x}]", r"attached\[0\]\.exact"),
        ("link: l\nsource: east\ntarget: west\nattached: [{target: x}]", r"attached\[0\]\.source is no text"),
    ],
)
def test_what_is_no_link_is_refused(text: str, says: str) -> None:
    """The error names the place and what to write."""
    with pytest.raises(ConfigError, match=says) as caught:
        read_manifest(text, "l.yaml")
    assert caught.value.hint


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner)))
def test_any_value_is_read_or_refused(value: object) -> None:
    """Whatever stands behind the keys ends in a link or a ConfigError."""
    for key in ("link", "source", "target", "mode", "attached", "settings"):
        fields = {"link": "l", "source": "east", "target": "west", key: value}
        with contextlib.suppress(ConfigError):
            read_manifest(json.dumps(fields), "l.yaml")
