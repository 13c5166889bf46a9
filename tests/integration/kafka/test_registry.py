"""The registry of a real cluster in ZooKeeper mode, read, watched, and held against what its brokers say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from isthmus.errors import AuthenticationFailed, ClusterError, Unreachable
from isthmus.fabric.fabric import Administration
from isthmus.local import LocalCluster
from isthmus.local.zookeeper import ZooKeeperModeCluster
from isthmus.model.cluster import Secret, Tls, ZooKeeper
from isthmus.model.kafka.description import MetadataMode
from isthmus.model.kafka.elections import ElectionOutcome
from isthmus.model.kafka.partitions import Condition
from isthmus.model.kafka.registry import Registry, changes
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

TOPIC: Final = "orders"


@pytest.fixture(scope="module")
def old() -> Iterator[ZooKeeperModeCluster]:
    """Two brokers of 3.9 with a topic whose partitions both of them have."""
    with ZooKeeperModeCluster.start("3.9.1", brokers=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        new = NewTopic(TOPIC, 2, replica_assignment=[[0, 1], [1, 0]])
        admin.create_topics([new])[TOPIC].result(TERM_S)
        yield cluster


@pytest.fixture
def keeper(old: ZooKeeperModeCluster) -> Iterator[KazooClient]:
    """A session of the test's own."""
    client = KazooClient(hosts=old.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


def known(old: ZooKeeperModeCluster, zookeeper: str | None = None) -> Administration:
    """The cluster as configured with its ZooKeeper."""
    return Administration(replace(old.cluster(), zookeeper=ZooKeeper(connect=zookeeper or old.zookeeper_connect)))


def test_tree_is_what_zookeeper_holds(old: ZooKeeperModeCluster, keeper: KazooClient) -> None:
    """Brokers, states, id and controller, each as it is there; only brokers and controller are ephemeral."""
    report = known(old).registry()

    assert report.is_from_zookeeper
    assert report.findings == ()
    by_path = {node.path: node for node in report.registry.nodes}
    assert {path for path, node in by_path.items() if node.is_ephemeral} == {
        "/brokers/ids/0",
        "/brokers/ids/1",
        "/controller",
    }
    state = f"/brokers/topics/{TOPIC}/partitions/1/state"
    for path in ("/cluster/id", "/brokers/ids/1", "/controller", "/controller_epoch", state):
        assert by_path[path].text == keeper.get(path)[0].decode()
    described = known(old).describe()
    assert (described.mode, described.controller) == (MetadataMode.ZOOKEEPER, report.registry.controller)
    assert described.cluster_id == report.registry.cluster_id
    assert [broker.version for broker in described.brokers] == ["3.9", "3.9"]


def test_lasting_disagreement_is_found(old: ZooKeeperModeCluster, keeper: KazooClient) -> None:
    """A state in ZooKeeper that the brokers do not have is told, and no longer when it is put right."""
    path = f"/brokers/topics/{TOPIC}/partitions/0/state"
    right, _ = keeper.get(path)
    wrong = {**json.loads(right), "leader": 1, "leader_epoch": 99}
    keeper.set(path, json.dumps(wrong).encode())
    try:
        (finding,) = known(old).registry().findings
        assert finding.subject == f"{old.cluster().alias}/{TOPIC}"
        assert "ZooKeeper has leader 1 in epoch 99" in finding.message
    finally:
        keeper.set(path, right)
    assert known(old).registry().findings == ()


def test_an_assignment_that_differs_is_found(old: ZooKeeperModeCluster, keeper: KazooClient) -> None:
    """Another preferred leader in ZooKeeper than the brokers have is told, and so is a partition they do not know."""
    path = f"/brokers/topics/{TOPIC}"
    right, _ = keeper.get(path)
    wrong = json.loads(right)
    wrong["partitions"]["0"].reverse()
    state = keeper.get(f"{path}/partitions/0/state")[0]
    keeper.create(f"{path}/partitions/7/state", state, makepath=True)
    keeper.set(path, json.dumps(wrong).encode())
    try:
        messages = [finding.message for finding in known(old).registry().findings]
        assert "partition 0: ZooKeeper assigns it to 1, 0, the API to 0, 1" in messages
        assert "partition 7 is there according to ZooKeeper, and not according to the API" in messages
    finally:
        keeper.set(path, right)
        keeper.delete(f"{path}/partitions/7", recursive=True)
    assert known(old).registry().findings == ()


def test_an_id_that_is_in_use_is_refused(old: ZooKeeperModeCluster) -> None:
    """A second broker that comes with the id of a living one ends with an error, and the first one stays."""
    before = known(old).registry().registry.brokers
    assert "NodeExistsException" in old.start_twin(1)
    assert known(old).registry().registry.brokers == before


def test_absent_zookeeper_and_wrong_chroot_are_told(old: ZooKeeperModeCluster) -> None:
    """Both are errors that say what to check; a cluster whose ZooKeeper is not configured is only said to be that."""
    with pytest.raises(ClusterError, match="holds no Kafka cluster"):
        known(old, f"{old.zookeeper_connect}/elsewhere").registry()
    with pytest.raises(Unreachable, match="does not answer"):
        known(old, "127.0.0.1:1").registry()
    report = Administration(old.cluster()).registry()
    assert not report.is_from_zookeeper
    assert "has no address of it" in report.statement
    assert set(report.registry.brokers) == {0, 1}


def test_kraft_cluster_has_no_zookeeper(east: LocalCluster) -> None:
    """It says so, and tells the same registry from its own metadata."""
    report = Administration(replace(east.cluster(), zookeeper=ZooKeeper(connect="127.0.0.1:1"))).registry()

    assert report.mode is MetadataMode.KRAFT
    assert "has no ZooKeeper" in report.statement
    assert report.registry.cluster_id == Administration(east.cluster()).describe().cluster_id
    assert set(report.registry.brokers) == {1}
    assert report.registry.controller == 1
    (broker,) = (json.loads(node.text) for node in report.registry.nodes if node.path == "/brokers/ids/1")
    host, _, port = east.bootstrap_servers.rpartition(":")
    assert broker == {
        "endpoints": [east.bootstrap_servers], "host": host, "port": int(port), "rack": None, "version": "4.4"
    }  # fmt: skip
    assert not any(node.is_ephemeral for node in report.registry.nodes)


def test_broker_that_moves_or_goes_is_seen(old: ZooKeeperModeCluster, keeper: KazooClient) -> None:
    """The watch reports a broker at another address, a killed one, and its partitions' new leaders."""
    seen: list[Registry] = []

    def watch() -> None:
        for registry in known(old).watch_registry():
            seen.append(registry)
            if registry.brokers.keys() == {0} and all(p.leader == 0 for p in registry.partitions.values()):
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    deadline = time.monotonic() + 2 * TERM_S
    while not seen:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # A broker that is at another address at once: its node is as ephemeral as before, and says something else.
    node = json.loads(keeper.get("/brokers/ids/1")[0])
    elsewhere = {**node, "endpoints": ["PLAINTEXT://127.0.0.2:9"], "host": "127.0.0.2", "port": 9}
    keeper.set("/brokers/ids/1", json.dumps(elsewhere).encode())
    while seen[-1].brokers.get(1) != frozenset({"127.0.0.2:9"}):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    old.kill(1)
    watching.join(TERM_S)

    assert not watching.is_alive()
    told = [line for a, b in pairwise(seen) for line in changes(a, b)]
    assert "broker 1 is gone" in told
    (moved,) = (line for line in told if line.startswith("broker 1 is at 127.0.0.2:9 and was at "))
    assert told.index(moved) < told.index("broker 1 is gone")
    assert any(line.startswith(f"{TOPIC}-1 is led by 0") for line in told)
    report = known(old).registry()
    assert report.findings == ()
    assert {finding.check for finding in known(old).describe().findings} >= {"under-replicated", "leader-not-preferred"}
    old.restart(1)
    _assert_elected(known(old))


def _assert_elected(cluster: Administration) -> None:
    """The broker that came back leads again after an election, which only the controller itself holds here."""
    deadline = time.monotonic() + TERM_S
    while any(Condition.UNDER_REPLICATED in p.conditions for p in cluster.topics([TOPIC]).partitions):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    outcomes = {election.partition: election.outcome for election in cluster.elect_leaders([TOPIC])}
    assert outcomes == {0: ElectionOutcome.NOT_NEEDED, 1: ElectionOutcome.ELECTED}
    while cluster.registry().registry.partitions[TOPIC, 1].leader != 1:
        assert time.monotonic() < deadline
    assert cluster.registry().findings == ()


def test_a_zookeeper_with_tls_and_a_login() -> None:
    """One that serves nobody without a login is read and watched over TLS as the user of the configuration, and each
    way in which that can fail is told by what to do, the password never.
    """
    with ZooKeeperModeCluster.start("3.9.1", secure=True) as closed:
        assert closed.credentials is not None
        admin = AdminClient({"bootstrap.servers": closed.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TERM_S)
        tls = Tls(ca_file=str(closed.credentials.ca_file))
        way = ZooKeeper(
            connect=closed.secure_connect,
            username="isthmus",
            password=closed.credentials.password("isthmus"),
            tls=tls,
        )

        def by(zookeeper: ZooKeeper) -> Administration:
            return Administration(replace(closed.cluster(), zookeeper=zookeeper))

        report = by(way).registry()
        assert report.is_from_zookeeper
        assert report.findings == ()
        assert (TOPIC, 0) in report.registry.partitions
        # Without TLS on the way the same login does.
        assert by(replace(way, connect=closed.zookeeper_connect, tls=None)).registry().registry.brokers.keys() == {0}
        watch = iter(by(way).watch_registry())
        first = next(watch)
        admin.create_topics([NewTopic("later", 1, 1)])["later"].result(TERM_S)
        assert any(line.startswith("later-0 is led by 0") for line in changes(first, next(watch)))

        wrong = replace(way, password=Secret("guessed"))
        with pytest.raises(AuthenticationFailed, match="refused the login of user isthmus") as told:
            by(wrong).registry()
        assert "guessed" not in f"{told.value.message} {told.value.hint} {wrong}"
        with pytest.raises(AuthenticationFailed, match="asks for a login") as nobody:
            by(replace(way, username=None, password=None)).registry()
        assert "username" in nobody.value.hint
        with pytest.raises(AuthenticationFailed, match="certificate that is not trusted") as stranger:
            by(replace(way, tls=Tls())).registry()
        assert "zookeeper.tls.ca_file" in stranger.value.hint
        with pytest.raises(AuthenticationFailed, match="does not speak TLS"):
            by(replace(way, connect=closed.zookeeper_connect)).registry()
