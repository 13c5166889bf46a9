"""Clients that come to a gateway by certificate, and are logged in at the brokers by it."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka import codes
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster, Login, Secret, SecretOrigin, Security, Tls
from isthmus.model.gateways.figures import Refusal
from isthmus.model.text.patterns import NamePattern
from isthmus.model.text.reference import FileReference
from testing.gateways.gateways import HOST, Running, gateway
from testing.patience import TERM_S, UNFENCED

pytestmark = pytest.mark.integration
LIFE_MS = 4000
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36


@dataclass(frozen=True, slots=True)
class Papers:
    """Who signs the certificates of clients and of the gateway, and the folder that all are in."""

    authority: trustme.CA
    folder: Path

    def issue(self, name: str, authority: trustme.CA | None = None, **how: Any) -> None:
        """A certificate in NAME.pem, and its key in NAME.key."""
        subject: dict[str, Any] = {"organization_name": "Example", "organization_unit_name": "apps", **how}
        issued = (authority or self.authority).issue_cert(HOST, common_name=name, **subject)
        issued.cert_chain_pems[0].write_to_path(self.folder / f"{name}.pem")
        issued.private_key_pem.write_to_path(self.folder / f"{name}.key")

    def file(self, name: str) -> Path:
        """One of them."""
        return self.folder / name

    def of(self, front: Running, name: str | None) -> dict[str, Any]:
        """How a client of that name is connected to a gateway."""
        own = {"ssl.certificate.location": f"{self.folder}/{name}.pem", "ssl.key.location": f"{self.folder}/{name}.key"}
        return {
            "bootstrap.servers": front.servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "log_level": 0,
            **(own if name else {}),
        }


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """One authority for all, and a gateway's certificate."""
    found = Papers(trustme.CA(), tmp_path_factory.mktemp("papers"))
    found.authority.cert_pem.write_to_path(found.file("ca.pem"))
    for name in ("gateway", "orders", "boss", "stranger", "isthmus"):
        found.issue(name)
    return found


@pytest.fixture(scope="module")
def guarded(papers: Papers) -> Iterator[LocalCluster]:
    """A cluster where logins are good for some seconds, and that knows the clients' authority."""
    properties = {**UNFENCED, "listener.name.sasl_ssl.connections.max.reauth.ms": str(LIFE_MS)}
    with LocalCluster.start(
        "guarded", brokers=1, secure=True, properties=properties, client_ca_file=papers.file("ca.pem"), heap_mb=256
    ) as cluster:
        yield cluster


def login(cluster: Cluster, name: str, *certificates: str) -> Login:
    """A login as the user that the cluster is configured for."""
    return Login(name=name, security=cluster.security, certificates=tuple(map(NamePattern.split, certificates)))


def served(cluster: LocalCluster) -> Cluster:
    """The cluster, with an ordinary user's login by SCRAM for one certificate, and a super user's by PLAIN."""
    orders = login(cluster.cluster(), "orders", "CN=orders,OU=apps,O=Example")
    boss = login(cluster.cluster(user="admin", mechanism="PLAIN"), "boss", "/CN=boss,.*/")
    return replace(cluster.cluster(), logins=(orders, boss))


def front_of(papers: Papers, cluster: Cluster, client_ca: Path | None = None) -> AbstractContextManager[Running]:
    """A gateway that takes certificates of the authority, or of those in another file."""
    certificate, key = papers.file("gateway.pem"), papers.file("gateway.key")
    return gateway(cluster, certificate=certificate, key=key, client_ca=client_ca or papers.file("ca.pem"))


def rights(papers: Papers, front: Running, name: str) -> set[AclOperation]:
    """What a client may do with the cluster: who it is to the brokers."""
    client = AdminClient(papers.of(front, name))
    return set(client.describe_cluster(include_authorized_operations=True).result(TERM_S).authorized_operations)


def refused(front: Running, settings: dict[str, Any], refusal: Refusal) -> bool:
    """Whether a client does not get in, for that reason."""
    before = front.gateway.figures().refused.get(refusal, 0)
    with pytest.raises(Exception, match=r"_TRANSPORT|_SSL|_TIMED_OUT|transport|timed out"):
        AdminClient(settings).list_topics(timeout=2)
    return front.gateway.figures().refused.get(refusal, 0) > before


def test_clients_are_logged_in_by_their_certificates(
    guarded: LocalCluster, papers: Papers, topic: Callable[[str], str]
) -> None:
    """Each is the user that its certificate stands for, and reads and writes while sessions end and begin. Who comes
    without a certificate logs in itself.
    """
    name, cluster = topic("certified"), served(guarded)
    with front_of(papers, cluster) as front:
        assert AclOperation.CLUSTER_ACTION not in rights(papers, front, "orders")
        assert AclOperation.CLUSTER_ACTION in rights(papers, front, "boss")
        settings = papers.of(front, "orders")
        client = AdminClient(settings)
        client.create_topics([NewTopic(name, 1, 1)])[name].result(TERM_S)
        producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0})
        consumer = Consumer({**settings, "group.id": name, "auto.offset.reset": "earliest"})
        consumer.subscribe([name])
        written, until, read = 0, time.monotonic() + 2 * LIFE_MS / 1000, list[int]()
        while time.monotonic() < until:
            producer.produce(name, str(written).encode())
            assert producer.flush(TERM_S) == 0
            written += 1
            if (record := consumer.poll(0.02)) is not None and not record.error():
                read.append(int(record.value() or b""))
        while len(read) < written:
            record = consumer.poll(TERM_S)
            assert record is not None
            if not record.error():
                read.append(int(record.value() or b""))
        consumer.close()
        assert read == list(range(written))

        itself = {
            **papers.of(front, None),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "isthmus",
            "sasl.password": guarded.credentials.password("isthmus").reveal(),
        }
        assert name in AdminClient(itself).list_topics(timeout=TERM_S).topics
        # Clients that are closed leave within handshakes.
        assert set(front.gateway.figures().refused) <= {Refusal.HANDSHAKE}


def frame(key: int, version: int, correlation: int, body: bytes) -> bytes:
    """A request without a client id; with tags in its header where it has some."""
    payload = struct.pack(">hhih", key, version, correlation, -1) + (b"\0" if version > 1 else b"") + body
    return struct.pack(">i", len(payload)) + payload


def answer(client: ssl.SSLSocket) -> bytes:
    """The next answer, from its correlation id on; nothing if there is none any more."""
    head = client.recv(4)
    if not head:
        return b""
    size, found = struct.unpack(">i", head)[0], b""
    while len(found) < size:
        found += client.recv(size - len(found))
    return found


def test_a_login_on_top_is_refused_and_sessions_end_in_time(guarded: LocalCluster, papers: Papers) -> None:
    """SaslHandshake and SaslAuthenticate get ILLEGAL_SASL_STATE, and the connection goes on as who it is. It is ended
    before the broker would: an idle client hears that.
    """
    trust = ssl.create_default_context(cafile=str(papers.file("ca.pem")))
    trust.load_cert_chain(papers.file("boss.pem"), papers.file("boss.key"))
    with (
        front_of(papers, served(guarded)) as front,
        trust.wrap_socket(
            socket.create_connection((HOST, front.port), TERM_S), server_hostname=HOST, suppress_ragged_eofs=False
        ) as client,
    ):
        began = time.monotonic()
        client.sendall(
            frame(API_VERSIONS, 0, 1, b"")
            + frame(SASL_HANDSHAKE, 1, 2, struct.pack(">h5s", 5, b"PLAIN"))
            + frame(SASL_AUTHENTICATE, 1, 3, struct.pack(">i14s", 14, b"\0admin\0letmein"))
            + frame(API_VERSIONS, 0, 4, b"")
        )
        answers = [answer(client) for _ in range(4)]
        assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4]
        assert [int.from_bytes(each[4:6], "big") for each in answers] == [
            *(codes.NONE, codes.ILLEGAL_SASL_STATE, codes.ILLEGAL_SASL_STATE, codes.NONE)
        ]
        client.settimeout(TERM_S)
        with contextlib.suppress(ssl.SSLEOFError):
            assert answer(client) == b""
        assert time.monotonic() - began < LIFE_MS / 1000 + 1
        assert not front.gateway.figures().refused


def test_who_is_not_let_in(guarded: LocalCluster, papers: Papers, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate of another authority, one out of date, one that nobody mapped, and a login that brokers refuse:
    counted by reason and logged by name, and others go on.
    """
    papers.issue("foreign", trustme.CA())
    yesterday = datetime.now(UTC) - timedelta(days=1)
    papers.issue("expired", not_before=yesterday - timedelta(days=1), not_after=yesterday)
    cluster = served(guarded)
    broken = replace(cluster.security, password=Secret("sesame-street"))
    cluster = replace(
        cluster,
        logins=(
            *cluster.logins,
            Login(name="broken", security=broken, certificates=(NamePattern.split("CN=isthmus,OU=apps,O=Example"),)),
        ),
    )
    with front_of(papers, cluster) as front:
        for name in ("foreign", "expired"):
            assert refused(front, papers.of(front, name), Refusal.HANDSHAKE)
        assert refused(front, papers.of(front, "stranger"), Refusal.CERTIFICATE)
        assert refused(front, papers.of(front, "isthmus"), Refusal.LOGIN)
        assert AdminClient(papers.of(front, "orders")).list_topics(timeout=TERM_S).topics
    for said in (
        "certificate has expired",
        "its certificate CN=stranger,OU=apps,O=Example belongs to no login of guarded",
        "login broken, by its certificate: guarded at",
    ):
        assert said in caplog.text
    secrets = ["sesame-street", *(guarded.credentials.password(user).reveal() for user in ("isthmus", "admin"))]
    assert not [secret for secret in secrets if secret in caplog.text]


def test_a_session_that_is_resumed_outlives_no_certificate(
    guarded: LocalCluster, papers: Papers, tmp_path: Path
) -> None:
    """A client that resumes a session of TLS is let in, and is not once its certificate is out of date."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
    Papers(papers.authority, tmp_path).issue("boss", not_after=end)
    trust = ssl.create_default_context(cafile=str(papers.file("ca.pem")))
    trust.load_cert_chain(tmp_path / "boss.pem", tmp_path / "boss.key")

    def asked(front: Running, session: ssl.SSLSession | None) -> tuple[bool, bytes, ssl.SSLSession | None]:
        """Whether the session is that one, the answer, and the session for the next time."""
        place = socket.create_connection((HOST, front.port), TERM_S)
        with trust.wrap_socket(place, server_hostname=HOST, session=session) as client:
            found = b""
            with contextlib.suppress(OSError):
                client.sendall(frame(API_VERSIONS, 0, 1, b""))
                found = answer(client)
            return bool(client.session_reused), found, client.session

    with front_of(papers, served(guarded)) as front:
        _, found, session = asked(front, None)
        assert found
        is_resumed, found, session = asked(front, session)
        assert is_resumed
        assert found
        while datetime.now(UTC) <= end:
            time.sleep(0.1)
        assert asked(front, session)[:2] == (True, b"")
        assert front.gateway.figures().refused == {Refusal.HANDSHAKE: 1}


def test_what_is_changed_while_it_serves(
    guarded: LocalCluster, papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Authorities that cannot be read change nothing, and that is said; others let others in. A password is read again
    for each login.
    """
    former, password, later = tmp_path / "ca.pem", tmp_path / "password", trustme.CA()
    former.write_bytes(papers.file("ca.pem").read_bytes())
    password.write_text("wrong")
    papers.issue("orders-later", later)
    cluster = guarded.cluster()
    security = replace(
        cluster.security,
        origins=(SecretOrigin(("password",), (FileReference(str(password)),)),),
        password=Secret("old"),
    )
    orders = Login(name="orders", security=security, certificates=(NamePattern.split("CN=orders*"),))
    with front_of(papers, replace(cluster, logins=(orders,)), former) as front:
        assert refused(front, papers.of(front, "orders"), Refusal.LOGIN)
        password.write_text(guarded.credentials.password("isthmus").reveal())
        assert AdminClient(papers.of(front, "orders")).list_topics(timeout=TERM_S).topics
        former.write_text("nothing of the kind")
        wait_until(lambda: f"the authorities of clients in {former} cannot be used" in caplog.text)
        assert "new connections get the files as they were before" in caplog.text
        assert AdminClient(papers.of(front, "orders")).list_topics(timeout=TERM_S).topics
        later.cert_pem.write_to_path(former)
        os.utime(former, (1, 1))
        context = front.gateway._context
        wait_until(lambda: front.gateway._context is not context)
        assert AdminClient(papers.of(front, "orders-later")).list_topics(timeout=TERM_S).topics
        assert refused(front, papers.of(front, "orders"), Refusal.HANDSHAKE)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_brokers_that_know_clients_by_certificates(guarded: LocalCluster, papers: Papers) -> None:
    """The gateway has a certificate of its own for each login. Who has none would be the gateway, and is not let in;
    without authorities of clients it is refused as a whole.
    """

    def security(name: str) -> Security:
        certificate, key = str(papers.file(f"{name}.pem")), str(papers.file(f"{name}.key"))
        ca_file = str(guarded.credentials.ca_file)
        return Security(protocol="SSL", tls=Tls(ca_file=ca_file, certificate_file=certificate, key_file=key))

    cluster = Cluster(
        alias="guarded",
        bootstrap_servers=(guarded.mutual_tls_bootstrap_servers,),
        security=security("isthmus"),
        logins=(Login(name="orders", security=security("isthmus"), certificates=(NamePattern.split("CN=orders,*"),)),),
    )
    with front_of(papers, cluster) as front:
        assert AclOperation.IDEMPOTENT_WRITE in rights(papers, front, "orders")
        assert refused(front, papers.of(front, None), Refusal.CERTIFICATE)
    with pytest.raises(PlanRefused, match="by certificates") as told, gateway(cluster):
        pass
    assert "--tls-client-ca" in told.value.hint
    with pytest.raises(ConfigError, match="over TLS only"), gateway(cluster, client_ca=papers.file("ca.pem")):
        pass
