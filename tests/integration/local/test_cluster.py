"""A local cluster serves clients, survives what is done to its brokers, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.errors import HostError, PlanRefused, PortBusy
from isthmus.local import LocalBroker, LocalCluster, status
from isthmus.local.ports import free_ports, is_free
from isthmus.local.probe import knows
from isthmus.local.process import Process
from testing.groups.consumers import await_coordinator
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

OWNER = """
import sys, time
from pathlib import Path
from isthmus.local import LocalCluster
cluster = LocalCluster.start("orphan", brokers=1, heap_mb=256, data_dir=Path(sys.argv[1]))
print(cluster.brokers[0].pid, flush=True)
time.sleep(600)
"""

RESTART = """
from isthmus.local import LocalCluster
broker = LocalCluster.find("shared").broker(1)
broker.terminate()
broker.start()
"""


def test_serves_an_independent_client(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """A record written through librdkafka is read back by it."""
    name = topic("greetings")
    admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
    assert str(admin.list_topics(timeout=TERM_S).cluster_id) == east.cluster_id
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    producer = Producer({"bootstrap.servers": east.bootstrap_servers})
    producer.produce(name, b"hello")
    assert producer.flush(TERM_S) == 0
    assert read_one(east, name) == b"hello"


def read_one(cluster: LocalCluster, topic: str) -> bytes | None:
    """The value of the first record of a topic, read by librdkafka."""
    servers = cluster.admin_bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    await_coordinator(servers, topic)
    consumer.subscribe([topic])
    record = consumer.poll(TERM_S)
    consumer.close()
    return None if record is None else record.value()


def answers(broker: LocalBroker) -> bool:
    """Whether the broker answers a client in time."""
    return knows(broker.admin_port, broker.node_id, cluster="east") > 0


def test_brokers_come_and_go(topic: Callable[[str], str]) -> None:
    """Killed, ended in order, paused: the broker is back afterwards, with its data."""
    name = topic("kept")
    quick = {"broker.session.timeout.ms": "2000"}
    with LocalCluster.start("east", brokers=1, heap_mb=256, properties=quick) as cluster:
        broker = cluster.broker(1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(name, b"kept")
        assert producer.flush(TERM_S) == 0

        broker.kill()
        assert (broker.state, broker.pid, cluster.describe().state) == ("stopped", None, "stopped")
        broker.start()
        broker.pause()
        assert (broker.state, cluster.describe().state) == ("paused", "degraded")
        assert not answers(broker)
        broker.resume()
        broker.wait_until_ready()
        broker.terminate()
        assert broker.state == "stopped"
        broker.start()
        assert read_one(cluster, name) == b"kept"


def test_three_brokers_live_without_one(east3: LocalCluster, topic: Callable[[str], str]) -> None:
    """Two of three brokers go on serving, and the third comes back among them."""
    name = topic("majority")
    admin = AdminClient({"bootstrap.servers": east3.bootstrap_servers})
    admin.create_topics([NewTopic(name, 3, 3)])[name].result()
    east3.broker(1).kill()
    try:
        producer = Producer({"bootstrap.servers": east3.bootstrap_servers, "acks": "all"})
        for partition in range(3):
            producer.produce(name, b"still here", partition=partition)
        assert producer.flush(60) == 0
    finally:
        east3.broker(1).start()
    east3.wait_until_ready()
    assert east3.describe().state == "running"


def test_starting_again_takes_up_what_is_there(tmp_path: Path) -> None:
    """A second start finds the running cluster, a third its data; only another shape is refused."""
    with LocalCluster.start("east", brokers=1, heap_mb=256, data_dir=tmp_path) as first:
        second = LocalCluster.start("east", brokers=1, heap_mb=256, data_dir=tmp_path)
        assert [broker.pid for broker in second.brokers] == [broker.pid for broker in first.brokers]
        found = LocalCluster.find("east", data_dir=tmp_path)
        assert found is not None
        assert found.describe() == first.describe()
    assert found.describe().state == "stopped"
    with LocalCluster.start("east", brokers=1, heap_mb=256, data_dir=tmp_path) as third:
        assert third.cluster_id == first.cluster_id
        assert third.bootstrap_servers == first.bootstrap_servers
        with pytest.raises(PlanRefused, match="it has 1 broker, not 2"):
            LocalCluster.start("east", brokers=2, data_dir=tmp_path)
        assert third.describe().state == "running"
        third.stop(wipe=True)
    assert LocalCluster.find("east", data_dir=tmp_path) is None


def test_wiping_leaves_other_files_alone(tmp_path: Path) -> None:
    """What is not the cluster's stays where it is."""
    (tmp_path / "notes.txt").write_text("mine")
    cluster = LocalCluster.start("east", brokers=1, heap_mb=256, data_dir=tmp_path)
    cluster.stop(wipe=True)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    """A port asked for that something listens on is an error that names it, and nothing starts."""
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortBusy, match=str(port)) as busy:
        LocalCluster.start("east", brokers=1, base_port=port, data_dir=tmp_path)
    assert f":{port}" in busy.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_ends_says_why(tmp_path: Path) -> None:
    """A setting the broker refuses is told with what it said, and its log is kept."""
    with pytest.raises(HostError, match=r"broker 1 of east ended .*num\.io\.threads") as failed:
        LocalCluster.start("east", brokers=1, properties={"num.io.threads": "none"}, data_dir=tmp_path)
    assert (tmp_path / "node-1" / "server.log").exists()
    assert str(tmp_path) in failed.value.hint


def test_brokers_end_with_their_owner(tmp_path: Path) -> None:
    """Killing the process that started a cluster ends the brokers too."""
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        broker = Process.with_pid(pid)
        owner.kill()
    assert broker is not None
    assert broker.wait_stopped(TERM_S)


def test_a_detached_cluster_is_everybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker restarted by another process goes on after that has ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = LocalCluster.start("shared", brokers=1, heap_mb=256, detached=True)
    try:
        before = cluster.broker(1).pid
        subprocess.run([sys.executable, "-c", RESTART], check=True, timeout=200)
        assert cluster.broker(1).pid not in (None, before)
        assert [known.state for known in status()] == ["running"]
    finally:
        cluster.stop(wipe=True)
    assert status() == []


def test_a_stranger_is_never_signalled(tmp_path: Path) -> None:
    """A process that was given the pid of an ended broker is left alone."""
    cluster = LocalCluster.start("east", brokers=1, heap_mb=256, data_dir=tmp_path)
    cluster.stop()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        document = {"pid": stranger.pid, "started_ticks": 1}
        (tmp_path / "node-1" / "process.json").write_text(json.dumps(document))
        broker = cluster.broker(1)
        assert broker.state == "stopped"
        broker.kill()
        broker.terminate()
        cluster.stop(wipe=True)
        assert stranger.poll() is None
        stranger.send_signal(signal.SIGKILL)


def test_a_temporary_cluster_leaves_nothing() -> None:
    """Without a data folder everything goes when the cluster stops."""
    with LocalCluster.start("east", brokers=1, heap_mb=256) as cluster:
        folder, port = cluster.folder, cluster.broker(1).port
        assert folder.is_dir()
    assert not folder.exists()
    assert is_free(port)
