"""A secured local cluster lets in whom it should, and nobody else."""

from __future__ import annotations

import asyncio
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from isthmus.errors import AuthenticationFailed, ClusterError
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster, SaslMechanism, Secret, Security, Tls
from testing.brokers.acls import deny
from testing.patience import TERM_S, UNFENCED

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates of our clients."""
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A secured cluster that also knows clients by certificates of `authority`."""
    ca_file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    with LocalCluster.start(
        "secured", brokers=1, heap_mb=256, secure=True, client_ca_file=ca_file, properties=UNFENCED
    ) as cluster:
        yield cluster


def cluster_id(cluster: Cluster) -> str | None:
    """What the brokers say to Isthmus."""

    async def ask() -> str | None:
        async with Client(cluster) as client:
            return (await client.metadata(())).cluster_id

    return asyncio.run(ask())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_users_log_in(secured: LocalCluster, mechanism: SaslMechanism) -> None:
    """The ordinary user logs in by every mechanism with a password."""
    assert cluster_id(secured.cluster(mechanism=mechanism)) == secured.cluster_id


def test_a_wrong_password_is_refused(secured: LocalCluster) -> None:
    """Another password than that in the file does not do."""
    cluster = secured.cluster()
    wrong = replace(cluster, security=replace(cluster.security, password=Secret("wrong")))
    with pytest.raises(AuthenticationFailed, match="user isthmus"):
        cluster_id(wrong)


def test_a_certificate_is_a_login(secured: LocalCluster, authority: trustme.CA, tmp_path: Path) -> None:
    """With mutual TLS the common name of the certificate is the user; without one nobody gets in."""
    issued = authority.issue_cert("client.test", common_name="isthmus")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    tls = Tls(ca_file=str(secured.credentials.ca_file), certificate_file=str(certificate), key_file=str(key))
    cluster = Cluster(
        alias="secured",
        bootstrap_servers=(secured.mutual_tls_bootstrap_servers,),
        security=Security(protocol="SSL", tls=tls),
    )
    assert cluster_id(cluster) == secured.cluster_id
    nobody = replace(tls, certificate_file=None, key_file=None)
    with pytest.raises(ClusterError):
        cluster_id(replace(cluster, security=replace(cluster.security, tls=nobody)))


def test_a_token_is_a_login(secured: LocalCluster) -> None:
    """OAUTHBEARER takes an unsigned token, as librdkafka makes one."""
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=isthmus",
    }
    assert str(admin(secured, token).list_topics(timeout=TERM_S).cluster_id) == secured.cluster_id


def admin(cluster: LocalCluster, login: Mapping[str, str]) -> AdminClient:
    """librdkafka over SASL_SSL."""
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(cluster.credentials.ca_file)}
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **tls, **login})


def test_rights_are_what_is_granted(secured: LocalCluster, topic: Callable[[str], str]) -> None:
    """The ordinary user may create topics, not change brokers; a rule against it is obeyed."""
    password = secured.credentials.password("isthmus").reveal()
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "isthmus", "sasl.password": password}
    ordinary = admin(secured, login)
    name, denied = topic("allowed"), topic("denied")
    ordinary.create_topics([NewTopic(name, 1, 1)])[name].result()
    threads = ConfigEntry("num.io.threads", "8", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[threads])
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        ordinary.incremental_alter_configs([broker])[broker].result()

    deny(secured, ResourceType.TOPIC, denied, AclOperation.ALL)
    deadline = time.monotonic() + TERM_S
    while may_create(ordinary, denied):  # a rule reaches the brokers a moment after it is made
        assert time.monotonic() < deadline


def may_create(client: AdminClient, topic: str) -> bool:
    """Whether the brokers would let the client create the topic."""
    try:
        client.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result()
    except KafkaException as refused:
        return "TOPIC_AUTHORIZATION_FAILED" not in str(refused)
    return True


def test_secrets_are_for_their_owner(secured: LocalCluster) -> None:
    """Files with secrets are readable by the user alone, and what describes the cluster has none."""
    folder = secured.credentials.folder
    secrets = [*folder.glob("*.password"), *secured.folder.glob("node-*/server.properties")]
    assert len(secrets) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    password = secured.credentials.password("isthmus").reveal()
    assert password not in f"{secured} {secured.describe()} {secured.cluster()}"
