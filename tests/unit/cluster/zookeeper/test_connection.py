"""A connection to ZooKeeper that cannot be made."""

from __future__ import annotations

import sys

import pytest

from isthmus.cluster.zookeeper.connection import connected
from isthmus.errors import HostError
from isthmus.model.cluster import Cluster, ZooKeeper


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kazoo the error says what to install; nothing else needs it."""
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    cluster = Cluster(alias="old", bootstrap_servers=("a:1",), zookeeper=ZooKeeper(connect="z:2181"))

    with pytest.raises(HostError, match="needs kazoo") as error, connected(cluster):
        pass

    assert "isthmus[zookeeper]" in error.value.hint
