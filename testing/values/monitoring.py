"""The dashboard's queries and the alerts, as the files of `deploy/` have them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
ALERTS = {rule["alert"]: rule for rule in RULES}
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())

PANEL_QUERIES = [
    (f"{panel['title']}: {target['refId']}", target["expr"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]


def filled_in(query: str) -> str:
    """A query of the dashboard as Grafana sends it, with everything chosen."""
    query = re.sub(r"\$__rate_interval", "5m", query)
    return re.sub(r"\$(link|topic)\b", ".*", query)
