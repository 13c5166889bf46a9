"""A query of Spark that reads topics of the source and writes them into the target, as a program of its user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from soak.mirrors.program import NOTHING, Program
from soak.side import Side
from testing.runs.command import ROOT
from testing.runs.driver import Driver

SINK_MODULE: Final = "soak.changed.sinking"


class Sink(Program):
    """One query with one checkpoint. All its runs, also two at once, go on from there."""

    name = "sink"
    keeps_offsets = False
    is_mapped = False
    internal: Sequence[str] = ("__isthmus",)

    def __init__(self, folder: Path, source: Side, target: Side, topics: Sequence[str], master: str) -> None:
        super().__init__()
        self._folder = folder
        document = {"clusters": {side.name: side.login() for side in (source, target)}}
        configuration = folder / "isthmus.yaml"
        configuration.write_text(yaml.safe_dump(document))
        self._told: dict[str, Any] = {
            "config": str(configuration),
            "master": master,
            "topics": {topic: target.names.called(topic) for topic in topics},
            "checkpoint": str(folder / "checkpoint"),
        }

    def launch(self, label: str, *, environment: Mapping[str, str] = NOTHING) -> Driver:
        log = self._folder / f"{label}.log"
        told = {**self._told, "log": str(self._folder / f"{label}-spark.log")}
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", SINK_MODULE, json.dumps(told)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return Driver(process=process, log=log)
