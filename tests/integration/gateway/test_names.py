"""All brokers behind one port of a gateway, told apart by the names that clients use (SNI)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.errors import ConfigError
from isthmus.gateway.ports import BrokerNames
from isthmus.local import LocalCluster
from testing.gateways.gateways import gateway
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

KAFKA_PYTHON = """
import socket, sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

found = socket.getaddrinfo

def resolved(host, *more, **named):
    assert host.endswith(".east.example"), host
    return found("127.0.0.1", *more, **named)

socket.getaddrinfo = resolved
port, ca_file, name = sys.argv[1:]
where = {"bootstrap_servers": f"kafka.east.example:{port}", "security_protocol": "SSL", "ssl_cafile": ca_file}
producer = KafkaProducer(acks="all", **where)
for number in range(30):
    producer.send(name, b"%d" % number, partition=number % 3)
producer.flush(60)
producer.close()
consumer = KafkaConsumer(auto_offset_reset="earliest", **where)
consumer.assign([TopicPartition(name, partition) for partition in range(3)])
read = []
while len(read) < 30:
    read += [int(record.value) for records in consumer.poll(1000).values() for record in records]
print(*sorted(read))
"""
"""Names are looked up by nobody else: the system knows none of these."""


def test_one_port_for_all_brokers(east3: LocalCluster, topic: Callable[[str], str], tmp_path: Path) -> None:
    """A client that knows one name writes to and reads from the leaders of all partitions, by one port; its check of
    the certificate's names is on. Without TLS names are refused.
    """
    authority, name = trustme.CA(), topic("names")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    served = authority.issue_cert("*.east.example")
    served.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    served.private_key_pem.write_to_path(tmp_path / "key.pem")
    client = AdminClient({"bootstrap.servers": east3.bootstrap_servers})
    client.create_topics([NewTopic(name, 3, replica_assignment=[[1], [2], [3]])])[name].result(TERM_S)

    names = "broker-{id}.east.example"
    with gateway(east3.cluster(), certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem", names=names) as front:
        command = [sys.executable, "-c", KAFKA_PYTHON, str(front.port), str(tmp_path / "ca.pem"), name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TERM_S, check=False)
        assert done.stdout.split() == [str(number) for number in range(30)], done.stderr[-2000:]
        assert isinstance(front.gateway.places, BrokerNames)
    with (
        pytest.raises(ConfigError, match="without TLS clients do not state which"),
        gateway(east3.cluster(), names=names),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="behind one port"),
        gateway(east3.cluster(), size=2, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem", names=names),
    ):
        pass
