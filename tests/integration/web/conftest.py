"""The REST API as it listens on a real socket, over the shared clusters."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from isthmus import config
from isthmus.local import LocalCluster
from isthmus.model.process.timings import Timings
from testing.groups import consumers
from testing.records import topics
from testing.rest.asking import RECORDS, Served, serving


@pytest.fixture(scope="session")
def served(east: LocalCluster, west: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of one link, with a token of each role. Its topic and its group have the link's name in them."""
    stem = f"web-{secrets.token_hex(4)}"
    topics.create(east, f"{stem}.a", partitions=2)
    topics.produce(east, f"{stem}.a", topics.some(RECORDS, random.Random(stem)))
    consumers.commit(east, {f"{stem}-group": {(f"{stem}.a", 0): 3}})
    folder = tmp_path_factory.mktemp("served")
    clusters = {each.cluster().alias: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
    link = {"name": stem, "source": "east", "target": "west", "topics": {"include": [f"{stem}.*"]}}
    file = folder / "isthmus.yaml"
    groups = {"include": [f"{stem}-*"]}
    document = {"clusters": clusters, "links": [{**link, "groups": groups}], "spark": {"master": "local[2]"}}
    file.write_text(yaml.safe_dump(document))
    configuration = replace(config.load(file), timings=Timings(calm_s=0.2))
    with serving(configuration, folder, file) as found:
        yield found
