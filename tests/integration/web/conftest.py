"""The REST API as it listens on a real socket, over the shared clusters."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator

import pytest

from isthmus.local import LocalCluster
from tests.integration.control.running import configuration_of, link_of
from tests.integration.groups import consumers
from tests.integration.lane import topics
from tests.integration.web.asking import RECORDS, Served, serving


@pytest.fixture(scope="session")
def served(east: LocalCluster, west: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of one link, with a token of each role. Its topic and its group have the link's name in them."""
    stem = f"web-{secrets.token_hex(4)}"
    topics.create(east, f"{stem}.a", partitions=2)
    topics.produce(east, f"{stem}.a", topics.some(RECORDS, random.Random(stem)))
    consumers.commit(east, {f"{stem}-group": {(f"{stem}.a", 0): 3}})
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    with serving(configuration_of(link), tmp_path_factory.mktemp("tokens")) as found:
        yield found
