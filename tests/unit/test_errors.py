"""Errors and their codes, which people and scripts rely on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.errors import BrokerRefused, IsthmusError, RegistryRefused, error_classes, exit_codes
from isthmus.model.kafka.checks import CHECKS
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.progress import ControllerProgress, LinkProgress
from isthmus.model.problem import Problem, exit_code_of, problem_of
from isthmus.model.state import ControllerState, LinkState
from isthmus.model.text.plain import plain
from isthmus.topics.plan import LinkPlan, Plan

ERRORS = list(error_classes())
# A code is never changed nor used for something else; what is new is added here.
CODES = {
    "ISTH-ERROR": 1,
    "ISTH-CONFIG": 2,
    "ISTH-GATE": 5,
    "ISTH-REQUEST": 1,
    "ISTH-ROW": 1,
    "ISTH-EPOCH": 1,
    "ISTH-TOKEN": 1,
    "ISTH-PLAN-REFUSED": 6,
    "ISTH-CLUSTER": 1,
    "ISTH-UNREACHABLE": 10,
    "ISTH-ANOTHER-CLUSTER": 10,
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


def raised(error: type[IsthmusError]) -> IsthmusError:
    """An error of this class."""
    more: dict[type[IsthmusError], dict[str, Any]] = {
        BrokerRefused: {"code": 41, "name": "NOT_CONTROLLER"},
        RegistryRefused: {"status": 500},
    }
    return error("broken", **more.get(error, {}))


def ended(link: str, problem: Problem | None) -> LinkProgress:
    """A link whose run is over."""
    state = LinkState.STOPPED if problem is None else LinkState.FAILED
    controller = ControllerProgress(state=ControllerState.NONE)
    return LinkProgress(link=link, source="east", target="west", state=state, controller=controller, problem=problem)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.error_code)
def test_a_cause_ends_a_plan_as_it_ends_a_run(error: type[IsthmusError]) -> None:
    """Where it keeps all links from running with its own code, where only some of them with 1."""
    found, links = raised(error), ("a", "b")
    for failed, code in ((links, error.exit_code), (links[1:], 1), ((), 0)):
        problems = {link: problem_of(found) if link in failed else None for link in links}
        plan = Plan(
            links=tuple(LinkPlan(link=link, source="east", target="west", problem=problems[link]) for link in links)
        )
        run = RunOutcome(
            links=tuple(ended(link, problems[link]) for link in links), errors=dict.fromkeys(failed, found)
        )
        assert (plan.exit_code, run.exit_code, exit_code_of(problems.values())) == (code, code, code)


def test_the_first_cause_counts() -> None:
    """Of several, in the order of the links; one that was found by looking, and is no error, ends with 1."""
    reachable, away = Problem("looked at"), Problem("away", code="ISTH-UNREACHABLE")
    refused = Problem("refused", code="ISTH-PLAN-REFUSED")
    assert [exit_code_of(found) for found in ([away, refused], [refused, away], [reachable, away])] == [10, 6, 1]


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
    assert plain(problem_of(error)) == {"message": "broken", "hint": "Mend it.", "code": "ISTH-ERROR"}


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
