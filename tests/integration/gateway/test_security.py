"""TLS on both sides of a gateway, and logins that pass it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local import LocalCluster
from isthmus.model.cluster import SaslMechanism
from isthmus.model.gateways.figures import Refusal
from testing.gateways.gateways import Running, gateway
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


def login(front: Running, ca: Path, mechanism: str, password: str) -> dict[str, Any]:
    """How a client logs in through a gateway, by TLS."""
    return {
        "bootstrap.servers": front.servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ca),
        "sasl.mechanism": mechanism,
        "sasl.username": "isthmus",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_logins_pass(
    secured: LocalCluster, topic: Callable[[str], str], tmp_path: Path, mechanism: SaslMechanism
) -> None:
    """Clients connect by TLS with the gateway's certificate and log in at the broker, which refuses a wrong password.
    Who does not log in is told nothing, and who only connects to the port is no trouble.
    """
    authority, name = trustme.CA(), topic("secret")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    served = authority.issue_cert("127.0.0.1")
    served.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    served.private_key_pem.write_to_path(tmp_path / "key.pem")
    password = secured.credentials.password("isthmus").reveal()
    with gateway(secured.cluster(), certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem") as front:
        with socket.create_connection(("127.0.0.1", front.port)):
            pass
        settings = login(front, tmp_path / "ca.pem", mechanism, password)
        client, producer = AdminClient(settings), Producer(settings)
        client.create_topics([NewTopic(name, 1, 1)])[name].result(TERM_S)
        producer.produce(name, b"value")
        assert producer.flush(TERM_S) == 0
        assert {passage.conversation.has_logged_in for passage in front.gateway.passages} == {True}

        stranger = AdminClient(login(front, tmp_path / "ca.pem", mechanism, "wrong"))
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=5)
        without = AdminClient({**login(front, tmp_path / "ca.pem", mechanism, password), "security.protocol": "SSL"})
        with pytest.raises(KafkaException):
            without.list_topics(timeout=5)
        assert front.gateway.figures().refused[Refusal.REQUEST]
