"""What a transform that cannot be applied says to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Portion
from isthmus.errors import PlanRefused
from isthmus.fabric.trying import change_portions
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.transform import RecordFunction, Transform
from isthmus.spark.application import SparkApplication
from testing.runs.running import link_of
from testing.values.letters import LETTERED

EAST = Cluster(alias="east", bootstrap_servers=("localhost:1",))
WEST = Cluster(alias="west", bootstrap_servers=("localhost:2",))

RULES = """
def away(rows):
    raise ConnectionError("the service is away")
"""


@pytest.mark.parametrize(("name", "hint"), [("away", "bring that back"), ("absent", "Correct the name")])
def test_a_function_that_cannot_work_now_is_not_called_missing(tmp_path: Path, name: str, hint: str) -> None:
    """What it asks has to come back; only one that cannot be found has to be installed."""
    module = f"rules_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(RULES)
    transform = Transform(python=RecordFunction(module, name, str(tmp_path)))
    portion = Portion(LETTERED, [Record(0, 1, None, b"v", [])], [False])
    link, application = link_of(EAST, WEST, "orders"), SparkApplication(Configuration(clusters=(), links=()))
    with pytest.raises(PlanRefused) as refused:
        asyncio.run(change_portions(link, Client(EAST), transform, [portion], application))
    assert hint in refused.value.hint
