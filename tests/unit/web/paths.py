"""Every path of the REST API."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[3]


PATHS = {
    f"{method.upper()} {path}"
    for path, methods in json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"].items()
    for method in methods
}
