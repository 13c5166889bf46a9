"""Every command and every path of the REST API that changes something has a dry run, or a reason for having none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.values.commands import LEAVES, LOOKING

ROOT = Path(__file__).parents[3]

"""They change nothing. Who adds a command says here that it only looks, or gives it a dry run."""

TRIALS = {
    "groups drill": "is a trial itself: it reads where a group would go on, and commits nothing",
    "gateway serve": "passes on what clients send: nothing is changed",
    "local up": "starts clusters to try things on, and refuses before it begins what it cannot start",
    "relay serve": "listens, and joins whoever comes: nothing is changed",
    "serve": "listens; what is changed through it has dry_run",
    "verify": "reads both sides; what it found is kept as the standing of a task",
}
"""Why commands that do more than look have no dry run."""

REST_TRIALS = {
    "POST /v1/links/{link}/groups:drill": TRIALS["groups drill"],
    "POST /v1/links/{link}:wait": "changes nothing, as its command",
    "POST /v1/links/{link}:verify": TRIALS["verify"],
    "POST /v1/trees/{tree}:verify": "changes nothing, as its command",
    "POST /v1/operations/{operation}:cancel": "ends what can be begun again, as Ctrl-C does",
}


@pytest.mark.parametrize("command", LEAVES)
def test_a_command_looks_or_can_be_tried(command: str) -> None:
    """One of three: it has --dry-run, it changes nothing, or there is a reason why it cannot be tried."""
    has_dry_run = "--dry-run" in LEAVES[command]["options"]
    assert [has_dry_run, command in LOOKING, command in TRIALS].count(True) == 1


def test_no_command_is_excused_that_is_not_there() -> None:
    """The lists above are of this release."""
    assert set(LEAVES) >= LOOKING | set(TRIALS)


@pytest.mark.parametrize("command", [name for name in LEAVES if "--yes" in LEAVES[name]["options"]])
def test_what_is_confirmed_can_be_tried(command: str) -> None:
    """Whoever is asked to type a name can see first what for."""
    assert "--dry-run" in LEAVES[command]["options"]


def _changes() -> Iterator[tuple[str, set[str]]]:
    described = json.loads((ROOT / "docs" / "openapi.json").read_text())
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if method in ("put", "post", "patch", "delete"):
                yield f"{method.upper()} {path}", {each.get("name") for each in operation.get("parameters", ())}


def test_every_change_over_rest_can_be_tried() -> None:
    """`dry_run` is a parameter of everything that is no GET, but for what has a reason."""
    changes = dict(_changes())
    assert {name for name, parameters in changes.items() if "dry_run" not in parameters} == set(REST_TRIALS)
