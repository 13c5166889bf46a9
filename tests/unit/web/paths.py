"""Every path of the REST API."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[3]

SUMMARIES = {
    f"{method.upper()} {path}": operation["summary"]
    for path, methods in json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"].items()
    for method, operation in methods.items()
}
PATHS = set(SUMMARIES)
