"""What the task of a lease leaves, if it fails by a bug."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.model.receipt import Ending
from isthmus.spark import task
from isthmus.spark.task import lease_task


def test_a_bug_is_told_by_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by an exception, of which nobody could tell whether the leases of the task are over. Others are not hit."""

    async def run(lease: Any) -> Any:
        if lease._spec.slot:
            raise RuntimeError("this cannot be")
        return "a receipt"

    def begin(lease: Any, spec: Any) -> None:
        lease._spec = spec

    monkeypatch.setattr(task.LeaseTask, "__init__", begin)
    monkeypatch.setattr(task.LeaseTask, "run", run)
    specs = [SimpleNamespace(slot=slot, generation=4, context=SimpleNamespace(link="l")) for slot in (0, 1)]
    receipts: Iterator[Any] = lease_task(cast(Any, specs), [])
    sound, failed = receipts
    assert sound == "a receipt"
    assert (failed.slot, failed.generation, failed.ending) == (1, 4, Ending.FAILED)
    assert (failed.has_written, failed.is_clean, failed.is_released) == (True, False, False)
    assert "this cannot be" in failed.problem.message
