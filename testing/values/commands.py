"""Every command of `isthmus`, and which of them only look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from isthmus.cli.completion import TREE

LOOKING = {
    "acls generate", "cluster describe", "cluster groups", "cluster list", "cluster registry", "cluster topics",
    "config check", "config show", "context list", "context show", "doctor", "groups copy", "groups describe",
    "groups key", "groups list", "groups translate", "help", "link describe", "link list", "local status",
    "gateway status", "namespace describe", "namespace list", "plan", "provenance", "quarantine list",
    "quarantine show", "schemas diff", "schemas list", "status", "token list", "tree describe", "tree list",
    "tree plan", "tree show", "tree targets", "transform try", "tree verify", "wait",
}  # fmt: skip


def _leaves(node: dict[str, Any], words: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in node["commands"].items():
        yield from _leaves(each, (*words, name))
    if not node["commands"]:
        yield " ".join(words), node


LEAVES = dict(_leaves(json.loads(TREE.read_text())))
