"""Isthmus as its users run it: `isthmus run` with a YAML file, and its other commands beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from soak.conditions import Conditions
from soak.mirrors.program import NOTHING, Program
from soak.naming import PREFIX
from soak.side import Side
from testing.runs.command import COMMAND, ROOT
from testing.runs.driver import Driver, launch

LINK: Final = "soak"
_COMMAND_S: Final = 180.0


class Isthmus(Program):
    """`isthmus run` of a configuration."""

    name = "isthmus"
    internal: Sequence[str] = ("__isthmus",)

    def __init__(self, folder: Path, document: Mapping[str, Any], *, is_mapped: bool) -> None:
        super().__init__()
        self._folder = folder
        self.is_mapped = is_mapped
        self.keeps_offsets = not is_mapped
        self.configuration = folder / "isthmus.yaml"
        self.configuration.write_text(yaml.safe_dump(document))

    def launch(
        self, label: str, configuration: Path | None = None, *, environment: Mapping[str, str] = NOTHING
    ) -> Driver:
        """Another `isthmus run`, of this configuration or another one, which the caller has to end."""
        log = self._folder / f"{label}.log"
        return launch("run", "-c", str(configuration or self.configuration), log=log, **environment)

    def call(self, *arguments: str, term_s: float = _COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Another command of `isthmus`, to its end."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
        return subprocess.run(
            [*COMMAND, *arguments, "-c", str(self.configuration)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=term_s,
            check=False,
        )

    def status(self) -> Any:
        """What `isthmus status -o json` shows of all links, `None` where that is no JSON."""
        said = self.call("status", "-o", "json")
        try:
            return json.loads(said.stdout)
        except json.JSONDecodeError:
            return None


def link_document(source: Side, target: Side, conditions: Conditions) -> dict[str, Any]:
    """The configuration of one link that mirrors all topics of a run."""
    link = {
        "name": LINK,
        "source": "source",
        "target": "target",
        "topics": {"include": [f"{PREFIX}*"], "offsets": conditions.offsets, **_naming(conditions)},
        "groups": {"include": [f"{PREFIX}*"], "way": "mapped" if conditions.is_mapped else "identity"},
        "on_data_gap": conditions.on_data_gap,
        "topics_interval_s": 2.0,
        # Where offsets are mapped that is to be asked for; nobody else sets anything at the target.
        "configs": {"sync": True, "interval_s": 5.0},
    }
    return {
        "clusters": {"source": source.login(), "target": target.login()},
        "links": [link],
        "spark": {"master": "local[2]", "lease_term_s": conditions.lease_term_s},
        "ledger": {"replication_factor": 3},
    }


def _naming(conditions: Conditions) -> dict[str, Any]:
    match conditions.naming:
        case "identity":
            return {}
        case "mm2":
            return {"naming": "mm2"}
        case "prefix":
            return {"naming": {"source_prefix": PREFIX, "target_prefix": conditions.names.prefix}}
