"""How commands are told which link they are about: by an argument, or by --link."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from isthmus.cli.completion import TREE
from isthmus.cli.options import chosen_link
from isthmus.errors import ConfigError


def commands(node: dict[str, Any], *path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every command of the table that completion has, with what it takes."""
    if not node["commands"]:
        yield " ".join(path), node
    for name, below in node["commands"].items():
        yield from commands(below, *path, name)


def test_a_link_can_be_named_without_an_option() -> None:
    """Whatever takes --link takes the link as its first argument as well, unless that is a group."""
    every = commands(json.loads(TREE.read_text(encoding="utf-8")))
    takes = {name: node["arguments"][:1] for name, node in every if "--link" in node["options"]}
    assert {name: kinds for name, kinds in takes.items() if kinds not in (["link"], ["group"])} == {}
    assert {"run", "plan", "status", "verify", "groups list", "groups sync", "acls generate"} <= set(takes)


def test_both_ways_name_one_link() -> None:
    """Either way will do, both when they agree, and neither stands for all links."""
    assert chosen_link("a", None) == chosen_link(None, "a") == chosen_link("a", "a") == "a"
    assert chosen_link(None, None) is None


def test_two_links_are_refused() -> None:
    """An argument and an option that differ are a mistake, not a choice."""
    with pytest.raises(ConfigError, match="two links are named: a, and --link b"):
        chosen_link("a", "b")
