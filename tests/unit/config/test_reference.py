"""The reference page of the configuration file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_generated_pages_are_up_to_date() -> None:
    """docs/configuration.md is what the models say, docs/errors.md what the errors say: `make docs` writes both."""
    checked = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")
