"""TLS and SASL against real brokers: every mechanism, wrong credentials, logins that expire."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from isthmus.errors import AuthenticationFailed, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES
from isthmus.kafka.client import Client
from isthmus.kafka.connect.address import split_address
from isthmus.kafka.connect.dial import dial
from isthmus.kafka.log import produce
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import (
    TLS_VERSIONS,
    ClientProperties,
    Cluster,
    OAuth,
    SaslMechanism,
    Secret,
    SecretOrigin,
    Security,
    SecurityProtocol,
    Tls,
)
from isthmus.model.text.reference import FileReference
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics
from testing.records.trickle import trickling
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
LIFE_MS = 5000


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for the client, and the authority that made it."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    issued = authority.issue_cert("isthmus", common_name="isthmus")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "client.pem")
    issued.private_key_pem.write_to_path(folder / "client.key")
    return Tls(
        ca_file=str(folder / "ca.pem"),
        certificate_file=str(folder / "client.pem"),
        key_file=str(folder / "client.key"),
    )


@pytest.fixture(scope="module")
def secured(pems: Tls) -> Iterator[LocalCluster]:
    """A cluster with an authorizer, where logins are good for two seconds."""
    assert pems.ca_file is not None
    properties = {"listener.name.sasl_ssl.connections.max.reauth.ms": str(LIFE_MS)}
    with LocalCluster.start(
        "secured",
        brokers=1,
        secure=True,
        client_ca_file=Path(pems.ca_file),
        properties={**UNFENCED, **properties},
        heap_mb=256,
    ) as cluster:
        yield cluster


def cluster_id(cluster: Cluster) -> str | None:
    """Log in and ask; `Client` raises what the brokers think of it."""

    async def scenario() -> str | None:
        async with Client(cluster) as client:
            return (await client.metadata()).cluster_id

    return asyncio.run(scenario())


def test_a_client_that_is_closed_has_closed_all(secured: LocalCluster) -> None:
    """Also the connection whose login was about to expire, and which another one has replaced."""

    async def scenario() -> None:
        async with Client(secured.cluster()) as client:
            await client.metadata()
            first = second = await client.connection(1)
            # On a busy machine its login may be over before there is another one: then the next two are looked at.
            while second is first or first.closed:
                await asyncio.sleep(0.01)
                first, second = second, await client.connection(1)
        assert (first.closed, second.closed) == (True, True)

    asyncio.run(scenario())


def test_a_part_of_a_request_may_be_empty(secured: LocalCluster) -> None:
    """TLS takes nothing of it: it is passed over, and whatever stands behind it is sent."""

    async def scenario() -> int:
        async with asyncio.timeout(TERM_S), Client(secured.cluster()) as client:
            connection = await client.connection(1)
            version = produce.version_for(connection.api_versions)
            append = produce.Append("nowhere", uuid.uuid4(), 0, bytes(HEADER_BYTES), memoryview(b""))
            answers, _ = await produce.post(connection, [append], version=version, timeout_ms=1000, timeout_s=TERM_S)
            return answers[produce.answer_key(append, version)].error_code

    assert asyncio.run(scenario()) == codes.CORRUPT_MESSAGE


def with_security(cluster: Cluster, **changes: Any) -> Cluster:
    return replace(cluster, security=replace(cluster.security, **changes))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_passwords(secured: LocalCluster, mechanism: SaslMechanism) -> None:
    """Each mechanism lets us in with the right password, and says which user was refused with a wrong one."""
    cluster = secured.cluster(mechanism=mechanism)
    assert cluster_id(cluster) == secured.cluster_id
    with pytest.raises(AuthenticationFailed, match="for user isthmus") as told:
        cluster_id(with_security(cluster, password=Secret("wrong-password")))
    assert "security.password" in told.value.hint
    assert "wrong-password" not in str(told.value)


@pytest.mark.parametrize("version", TLS_VERSIONS)
def test_the_versions_of_tls_that_are_spoken(secured: LocalCluster, version: str) -> None:
    """What the properties of the cluster leave out is not spoken, though broker and client could."""
    cluster = secured.cluster()
    host, port = split_address(cluster.bootstrap_servers[0], cluster.alias)
    with dial(
        replace(cluster, properties=ClientProperties(tls_versions=frozenset({version}))), host, port, "me"
    ).sock as sock:
        assert isinstance(sock, ssl.SSLSocket)
        assert sock.version() == version


def test_a_mechanism_that_is_not_offered() -> None:
    """Those that are offered are named."""
    properties = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
    with LocalCluster.start("plain", brokers=1, secure=True, properties=properties, heap_mb=256) as cluster:
        told = refusal(cluster.cluster(mechanism="SCRAM-SHA-512"))
    assert "does not offer the mechanism SCRAM-SHA-512" in told.message
    assert told.hint == "Set security.mechanism of plain to one it offers: OAUTHBEARER, PLAIN."


def test_mutual_tls(secured: LocalCluster, pems: Tls) -> None:
    """A client certificate is a login; without one there is none, and a wrong one is named."""
    tls = replace(pems, ca_file=str(secured.credentials.ca_file))
    mutual = listener(secured, "mutual", Security(protocol="SSL", tls=tls))
    assert cluster_id(mutual) == secured.cluster_id
    told = refusal(with_security(mutual, tls=Tls(ca_file=tls.ca_file)))
    assert "asks for a client certificate" in told.message
    assert "certificate_file and key_file of east" in told.hint


def test_a_client_certificate_nobody_vouches_for(secured: LocalCluster, tmp_path: Path) -> None:
    """It is the certificate that is named, not the broker's."""
    issued = trustme.CA().issue_cert("isthmus")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "other.pem")
    tls = Tls(ca_file=str(secured.credentials.ca_file), certificate_file=str(tmp_path / "other.pem"))
    told = refusal(listener(secured, "mutual", Security(protocol="SSL", tls=tls)))
    assert f"does not accept the certificate in {tmp_path / 'other.pem'}" in told.message


def test_certificates_that_are_changed(secured: LocalCluster, pems: Tls, tmp_path: Path) -> None:
    """A client shows its next broker the certificate that the files hold by then, and believes their authorities."""
    authorities, certificate, key = (tmp_path / name for name in ("ca.pem", "client.pem", "client.key"))
    stranger = trustme.CA()
    issued = stranger.issue_cert("isthmus")
    stranger.cert_pem.write_to_path(authorities)
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    tls = Tls(ca_file=str(authorities), certificate_file=str(certificate), key_file=str(key))
    mutual = listener(secured, "mutual", Security(protocol="SSL", tls=tls))

    async def scenario() -> None:
        async with Client(mutual) as client:
            with pytest.raises(AuthenticationFailed, match="does not come from the authorities"):
                await client.metadata()
            authorities.write_bytes(secured.credentials.ca_file.read_bytes())
            with pytest.raises(AuthenticationFailed, match="does not accept the certificate"):
                await client.metadata()
            assert pems.certificate_file is not None
            assert pems.key_file is not None
            certificate.write_bytes(Path(pems.certificate_file).read_bytes())
            key.write_bytes(Path(pems.key_file).read_bytes())
            assert (await client.metadata()).cluster_id == secured.cluster_id

    asyncio.run(scenario())


def test_brokers_nobody_vouches_for(secured: LocalCluster, pems: Tls) -> None:
    """A certificate from an unknown authority is not believed, and the file with the known ones is named."""
    told = refusal(with_security(secured.cluster(), tls=Tls(ca_file=pems.ca_file)))
    assert f"does not come from the authorities in {pems.ca_file}" in told.message
    assert "security.tls.ca_file of secured" in told.hint
    told = refusal(with_security(secured.cluster(), tls=Tls()))
    assert "the authorities this system trusts" in told.message


def test_a_certificate_for_another_host(tmp_path: Path) -> None:
    """The name in the certificate has to be the one in the configuration, unless told otherwise."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kafka.example").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(greet, server, context)
        security = Security(protocol="SSL", tls=Tls(ca_file=str(tmp_path / "ca.pem")))
        port = server.getsockname()[1]
        told = refusal(Cluster(alias="east", bootstrap_servers=(f"127.0.0.1:{port}",), security=security))
    assert told.message.startswith(f"east at 127.0.0.1:{port} shows a certificate for another host")
    assert "verify_hostname of east" in told.hint


def greet(server: socket.socket, context: ssl.SSLContext) -> None:
    """Take part in the TLS handshake of one client."""
    with suppress(OSError), server.accept()[0] as sock, context.wrap_socket(sock, server_side=True):
        pass


def test_unusable_pem_files(secured: LocalCluster, tmp_path: Path) -> None:
    """File, place in the configuration and cluster are named; it is tried again, as a file may be renewed just now."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for file, reason in ((broken, "holds no certificate"), (tmp_path / "missing.pem", "No such file")):
        with pytest.raises(Unreachable) as told:
            cluster_id(with_security(secured.cluster(), tls=Tls(ca_file=str(file))))
        assert f"clusters.secured.security.tls.ca_file names {file}, which" in told.value.message
        assert reason in told.value.message
        assert told.value.retryable


def listener(cluster: LocalCluster, name: str, security: Security) -> Cluster:
    """A cluster by one of its listeners."""
    servers = {
        "login": cluster.bootstrap_servers,
        "mutual": cluster.mutual_tls_bootstrap_servers,
        "clear": cluster.admin_bootstrap_servers,
    }
    return Cluster(alias="east", bootstrap_servers=tuple(servers[name].split(",")), security=security)


def refusal(cluster: Cluster) -> AuthenticationFailed:
    """How a login is refused, in one sentence and a hint."""
    with pytest.raises(AuthenticationFailed) as told:
        cluster_id(cluster)
    assert (told.value.cluster, told.value.retryable, "\n" in told.value.message) == (cluster.alias, False, False)
    return told.value


@pytest.mark.parametrize(
    ("name", "protocol", "found", "advice"),
    [
        ("login", "PLAINTEXT", "speaks TLS", "to SSL (SASL_SSL where it asks for a login)"),
        ("login", "SASL_PLAINTEXT", "speaks TLS", "to SASL_SSL"),
        ("login", "SSL", "asks for a login", "to SASL_SSL, with a mechanism it offers (OAUTHBEARER, PLAIN, SCRAM"),
        ("clear", "SSL", "does not speak TLS", "to PLAINTEXT and leave out security.tls"),
        ("clear", "SASL_SSL", "does not speak TLS", "to PLAINTEXT and leave out security.tls"),
        ("clear", "SASL_PLAINTEXT", "asks for no login", "to PLAINTEXT and leave out what belongs to a login"),
        ("mutual", "PLAINTEXT", "speaks TLS", "to SSL"),
        ("mutual", "SASL_SSL", "asks for no login", "to SSL and leave out what belongs to a login"),
    ],
)
def test_another_protocol_than_is_configured(
    secured: LocalCluster, pems: Tls, name: str, protocol: SecurityProtocol, found: str, advice: str
) -> None:
    """The sentence tells cluster, address, what the listener speaks and what is configured; the hint what to write."""
    login = secured.cluster().security
    tls = replace(pems, ca_file=login.tls.ca_file)
    told = refusal(listener(secured, name, replace(login, protocol=protocol, tls=tls)))
    address = listener(secured, name, login).bootstrap_servers[0]
    assert told.message == f"east at {address} {found}, and security.protocol is {protocol}"
    assert f"Set security.protocol of east {advice}" in told.hint
    assert "bootstrap_servers" in told.hint


@contextmanager
def token_endpoint(answer: bytes) -> Iterator[tuple[str, list[str]]]:
    """An authorization server that gives everybody the same answer, and the forms it was sent."""
    forms: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", free_ports(1)[0]), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", forms
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def token(subject: str) -> str:
    """An unsigned JSON web token, which the local brokers believe."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + 600, "scope": ""}
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims)
    )
    return ".".join((*parts, ""))


def test_tokens(secured: LocalCluster) -> None:
    """OAUTHBEARER: a token is fetched with the client's credentials and used again until it is about to expire."""
    answer = json.dumps({"access_token": token("isthmus"), "expires_in": 600}).encode()
    with token_endpoint(answer) as (url, forms):
        oauth = OAuth(token_endpoint_url=url, client_id="me", client_secret=Secret("s3cret"), scope="kafka")
        cluster = with_security(secured.cluster(), mechanism="OAUTHBEARER", oauth=oauth, password=None)
        assert cluster_id(cluster) == secured.cluster_id
        assert cluster_id(cluster) == secured.cluster_id
    assert len(forms) == 1
    assert "grant_type=client_credentials" in forms[0]
    assert "scope=kafka" in forms[0]


def test_a_token_that_is_refused(secured: LocalCluster, tmp_path: Path) -> None:
    """It is asked for anew, with the secret that the file holds by then."""
    spoilt = json.dumps({"access_token": "no.token.", "expires_in": 600}).encode()
    (tmp_path / "secret").write_text("0ld")
    with token_endpoint(spoilt) as (url, forms):
        oauth = OAuth(token_endpoint_url=url, client_id="me", client_secret=Secret("0ld"))
        origin = SecretOrigin(("oauth", "client_secret"), (FileReference(str(tmp_path / "secret")),))
        cluster = with_security(
            secured.cluster(), mechanism="OAUTHBEARER", oauth=oauth, password=None, origins=(origin,)
        )
        for secret in ("0ld", "0ld", "n3w"):
            (tmp_path / "secret").write_text(secret)
            assert "refused the login" in refusal(cluster).message
    assert [form.partition("client_secret=")[2] for form in forms] == ["0ld", "0ld", "n3w"]


@pytest.mark.parametrize(
    "answer",
    [b"no json", b"[" * 100_000, b'{"access_token": "a"}' + b" " * (2 << 20)],
    ids=["no json", "deep", "long"],
)
def test_no_token(secured: LocalCluster, answer: bytes) -> None:
    """An endpoint that gives none is named, its secret is not; of an answer no more is read than a token may need."""
    with token_endpoint(answer) as (url, _):
        oauth = OAuth(token_endpoint_url=url, client_id="me", client_secret=Secret("s3cret"))
        with pytest.raises(AuthenticationFailed, match="token") as told:
            cluster_id(with_security(secured.cluster(), mechanism="OAUTHBEARER", oauth=oauth))
    assert "security.oauth" in told.value.hint
    assert "s3cret" not in f"{told.value} {told.value.hint}"


def test_no_token_endpoint(secured: LocalCluster) -> None:
    """One that does not answer is waited for, as a cluster is; both are named."""
    oauth = OAuth(token_endpoint_url="http://127.0.0.1:1/token", client_id="me", client_secret=Secret("s3cret"))
    with pytest.raises(Unreachable, match=r"endpoint of secured at 127\.0\.0\.1 does not answer"):
        cluster_id(with_security(secured.cluster(), mechanism="OAUTHBEARER", oauth=oauth))


@pytest.mark.parametrize("side", ["source", "target"])
def test_logins_that_expire(east: LocalCluster, secured: LocalCluster, topic: TopicNamer, side: str) -> None:
    """Lanes outlive their logins (KIP-368) on either side, over TLS, and nothing is lost."""
    name = topic("expiring")
    source, target = (secured, east) if side == "source" else (east, secured)
    topics.create_both(source, target, name, partitions=2)
    mirror = Mirror(source, target, source_login=source.cluster(), target_login=target.cluster())

    async def scenario() -> None:
        async with mirror.running(name) as running:
            with trickling(source, name, random.Random(1), partitions=2):
                await asyncio.sleep(2 * LIFE_MS / 1000)
            ends = [oracle.ends(source.admin_bootstrap_servers, name, partition).stable for partition in (0, 1)]
            await running.until(lambda reports: [report.position for report in reports.values()] == ends)

    asyncio.run(scenario())

    assert oracle.assert_same(source, target, name, partitions=2) > 0
