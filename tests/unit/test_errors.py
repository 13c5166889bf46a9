"""Errors and their codes, which people and scripts rely on."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.errors import IsthmusError, error_classes, exit_codes
from isthmus.model.checks import CHECKS
from isthmus.model.problem import problem_dict, problem_of

ERRORS = list(error_classes())
# A code is never changed nor used for something else; what is new is added here.
CODES = {
    "ISTH-ERROR": 1,
    "ISTH-CONFIG": 2,
    "ISTH-GATE": 5,
    "ISTH-REQUEST": 1,
    "ISTH-TOKEN": 1,
    "ISTH-PLAN-REFUSED": 6,
    "ISTH-CLUSTER": 1,
    "ISTH-UNREACHABLE": 10,
    "ISTH-AUTHENTICATION": 11,
    "ISTH-NOT-AUTHORIZED": 12,
    "ISTH-UNSUPPORTED": 13,
    "ISTH-BROKER-REFUSED": 14,
    "ISTH-FENCED": 15,
    "ISTH-OCCUPIED": 16,
    "ISTH-REGISTRY-UNREACHABLE": 17,
    "ISTH-REGISTRY-REFUSED": 18,
    "ISTH-SCHEMA-CONFLICT": 19,
    "ISTH-HOST": 1,
    "ISTH-JAVA": 20,
    "ISTH-PORT": 21,
    "ISTH-JARS": 22,
    "ISTH-SPARK": 23,
    "ISTH-OUTPUT": 1,
    "ISTH-INVARIANT": 70,
}


def test_codes_stay_what_they_are() -> None:
    """Each class of errors has a code of its own, and none has changed."""
    assert {error.error_code: error.exit_code for error in ERRORS} == CODES
    assert len(ERRORS) == len(CODES)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.error_code)
def test_every_error_says_what_to_do(error: type[IsthmusError]) -> None:
    """In words of its own, not those of the class it is made of."""
    assert error.remedy.endswith(".")
    assert [other for other in ERRORS if other.remedy == error.remedy] == [error]


def test_all_exit_codes_are_listed() -> None:
    """Those of errors, of results and of signals; where an error shares one with a result, both are told."""
    listed = exit_codes()
    assert list(listed) == sorted({*CODES.values(), 0, 3, 4, 130, 141, 143})
    assert any("differ" in meaning for meaning in listed[4])
    assert any("paused" in meaning for meaning in listed[5])
    assert any(meaning.startswith("ISTH-GATE: ") for meaning in listed[5])


def test_a_problem_has_the_code_of_its_error() -> None:
    """Programs get it under its own key."""
    error = IsthmusError("broken", hint="Mend it.")
    assert problem_dict(problem_of(error)) == {"message": "broken", "hint": "Mend it.", "code": "ISTH-ERROR"}


def test_help_explains_codes() -> None:
    """The table of exit codes, all errors, one of them in any case of letters, and a command."""
    runner = CliRunner()
    codes = json.loads(runner.invoke(app, ["help", "exit-codes", "-o", "json"]).stdout)
    assert [row["exit_code"] for row in codes] == list(exit_codes())
    assert runner.invoke(app, ["help", "errors", "-o", "name"]).stdout.split() == [
        *(error.error_code for error in ERRORS),
        *(check.code for check in CHECKS.values()),
    ]
    told = json.loads(runner.invoke(app, ["help", "isth-check-clock", "-o", "json"]).stdout)
    assert (told["code"], told["exit_code"]) == ("ISTH-CHECK-CLOCK", None)
    occupied = json.loads(runner.invoke(app, ["help", "isth-occupied", "-o", "json"]).stdout)
    assert (occupied["exit_code"], "--standby" in occupied["what_to_do"]) == (16, True)
    assert runner.invoke(app, ["help", "ISTH-NOTHING"]).exit_code == 2
    assert "Usage: isthmus status" in runner.invoke(app, ["help", "status"]).stdout
    assert "exit-codes" in runner.invoke(app, ["help"]).stdout
    _, _, table = runner.invoke(app, ["--help"]).stdout.partition("Exit codes: ")
    brief, _, more = " ".join(table.split()).partition(" In full: ")
    assert [int(number) for number in re.findall(r"\b\d+\b", brief)] == list(exit_codes())
    assert "isthmus help exit-codes" in more
