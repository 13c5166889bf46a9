"""The codes of findings, which people and scripts rely on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from isthmus.model.kafka.checks import CHECKS, Check
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.partitions import Condition
from isthmus.model.text.plain import plain

SOURCES = Path(__file__).parents[4] / "src" / "isthmus"
# Never changed, nor used for something else; what is new is added here.
NAMES = (
    "access-rules broker brokers certificates clock cluster-id clusters configuration distance divergence "
    "fewer-replicas-than-min-isr groups hanging-transaction identity java leader-not-preferred leader-skew ledger "
    "min-isr-one network no-margin offline offsets-topic one-replica open-transaction passwords patterns preflight "
    "producer-id quorum quotas reachability recommendation retention rights security spark topics under-min-isr "
    "under-replicated zookeeper"
)
# What these are given as a check, by where it stands among their arguments.
HELPERS = {"_error": 1, "_of_problem": 2, "_build_unexamined": 1, "_topics": 1}


def test_codes_stay_what_they_are() -> None:
    """Each check has one of its own, and none has changed."""
    assert sorted(check.code for check in CHECKS.values()) == [f"ISTH-CHECK-{name.upper()}" for name in NAMES.split()]


def _told(tree: ast.AST) -> Iterator[str]:
    """The checks that a module names."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            given += [each.value for each in node.keywords if each.arg == "check"]
            given += node.args[HELPERS[name] : HELPERS[name] + 1] if name in HELPERS else []
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            given += [node.value] if isinstance(target, ast.Name) and target.id in ("_CHECK", "DIVERGENCE") else []
        yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_every_check_has_a_code() -> None:
    """Whatever names a finding, and nothing else."""
    modules = [path for path in SOURCES.rglob("*.py") if "findings" in path.read_text(encoding="utf-8")]
    told = {name for path in modules for name in _told(ast.parse(path.read_text(encoding="utf-8")))}
    told |= {"one-replica", "min-isr-one", "no-margin", "producer id", "ledger"} | set(map(str, Condition))
    assert told == CHECKS.keys()


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.name)
def test_every_check_says_what_to_do(check: Check) -> None:
    """In sentences."""
    assert check.found.endswith(".")
    assert check.remedy.endswith(".")


def test_what_is_well_has_no_code() -> None:
    """A finding that needs nobody is none to look up."""
    finding = Finding(level=Level.OK, subject="east", check="python", message="Python 3.11")
    assert plain(finding)["code"] is None
    assert Finding(level=Level.WARN, subject="east", check="clock", message="late").code == "ISTH-CHECK-CLOCK"
