"""`isthmus cluster reassign`: the files it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from isthmus.cli.clusters import reassigning
from isthmus.clusters.reassigning import ReassignmentPlan
from isthmus.errors import OutputFailed
from isthmus.model.kafka.assignment import Assignment, Move

PLAN = ReassignmentPlan(
    before=(Assignment("orders", 0, (1,)),),
    after=(Assignment("orders", 0, (2,)),),
    moves=(Move("orders", 0, (1,), (2,)),),
)


class Planned:
    """A fabric of which only the plan is known."""

    def __init__(self, _: Any) -> None:
        pass

    def reassigning(self, _: str) -> Planned:
        """Its partitions."""
        return self

    def plan(self, _: Sequence[str], *, brokers: Sequence[int], replicas: int | None) -> ReassignmentPlan:
        """Always the same."""
        return PLAN


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file; clusters are not asked."""
    monkeypatch.setattr(reassigning, "Fabric", Planned)
    file = tmp_path / "isthmus.yaml"
    file.write_text('clusters: {east: {bootstrap_servers: "127.0.0.1:1"}}')
    return file


def test_a_plan_that_is_only_tried_is_not_written(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nobody is told that it is."""
    to = planned.with_name("plan.json")

    reassigning.reassign("east", plan=True, to=to, dry_run=True, path=planned)
    assert not to.exists()
    assert "the plan is in" not in capsys.readouterr().err
    reassigning.reassign("east", plan=True, to=to, path=planned)
    assert to.exists()
    assert "the plan is in" in capsys.readouterr().err


def test_a_plan_that_cannot_be_written_is_no_bug(planned: Path) -> None:
    """It says where it was to be written, and what to do."""
    with pytest.raises(OutputFailed, match="cannot be written: Not a directory"):
        reassigning.reassign("east", plan=True, to=planned / "plan.json", path=planned)
