"""Old brokers with their ZooKeeper, for compatibility."""

from __future__ import annotations

from typing import get_args

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local.zookeeper import Version, ZooKeeperModeCluster
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("version", get_args(Version))
def test_an_old_broker_serves_clients(version: Version) -> None:
    """It creates a topic for an independent client, and is gone afterwards."""
    with ZooKeeperModeCluster.start(version) as old:
        admin = AdminClient({"bootstrap.servers": old.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        assert len(admin.list_topics("orders", timeout=TERM_S).topics["orders"].partitions) == 2
    assert not old.folder.exists()
