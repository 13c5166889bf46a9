"""The public face of the package: what it offers, and that offering it costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import isthmus

HEAVY = ("kafka", "pyspark", "pydantic", "rich", "typer", "yaml", "asyncio")


def test_public_names_are_these() -> None:
    """Whatever is public is public on purpose, and there."""
    names = [
        "AsyncFabric",
        "BackgroundRun",
        "Fabric",
        "FabricStatus",
        "IsthmusError",
        "LinkProgress",
        "Plan",
        "RunOutcome",
        "__version__",
        "open",
        "spark",
    ]
    assert isthmus.__all__ == names
    assert all(hasattr(isthmus, name) for name in names)


def test_unknown_names_are_attribute_errors() -> None:
    """A name nobody offers is refused the way Python does."""
    with pytest.raises(AttributeError, match="nothing"):
        isthmus.nothing  # noqa: B018


@pytest.mark.parametrize("module", ["isthmus", "isthmus.spark", "isthmus.model.lane"])
def test_importing_is_cheap(module: str) -> None:
    """Executors import the package for every new worker: nothing heavy comes along."""
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
