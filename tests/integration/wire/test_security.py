"""TLS and SASL against real brokers: every mechanism, wrong credentials, logins that expire."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from isthmus.cluster.local import LocalCluster
from isthmus.cluster.local.ports import free_ports
from isthmus.errors import AuthenticationFailed, ClusterError, ConfigError, Unreachable
from isthmus.model.cluster import Cluster, OAuth, SaslMechanism, Secret, Security, Tls
from isthmus.wire.client import Client
from tests.integration.lane import oracle, topics
from tests.integration.lane.mirror import Mirror
from tests.integration.lane.trickle import trickling

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
LIFE_MS = 2000


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
        "secured", brokers=1, secure=True, client_ca_file=Path(pems.ca_file), properties=properties, heap_mb=256
    ) as cluster:
        yield cluster


def cluster_id(cluster: Cluster) -> str | None:
    """Log in and ask; `Client` raises what the brokers think of it."""

    async def scenario() -> str | None:
        async with Client(cluster) as client:
            return (await client.metadata()).cluster_id

    return asyncio.run(scenario())


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


def test_mutual_tls(secured: LocalCluster, pems: Tls) -> None:
    """A client certificate is a login; without one there is none."""
    servers = tuple(secured.mutual_tls_bootstrap_servers.split(","))

    def mutual(tls: Tls) -> Cluster:
        return Cluster(alias="mutual", bootstrap_servers=servers, security=Security(protocol="SSL", tls=tls))

    tls = replace(pems, ca_file=str(secured.credentials.ca_file))
    assert cluster_id(mutual(tls)) == secured.cluster_id
    with pytest.raises((AuthenticationFailed, Unreachable)) as told:
        cluster_id(mutual(Tls(ca_file=tls.ca_file)))
    assert told.value.hint


def test_brokers_nobody_vouches_for(secured: LocalCluster, pems: Tls) -> None:
    """A certificate from an unknown authority, or for another host, is not believed."""
    with pytest.raises(AuthenticationFailed, match="refused TLS") as told:
        cluster_id(with_security(secured.cluster(), tls=Tls(ca_file=pems.ca_file)))
    assert "ca_file" in told.value.hint


def test_unusable_pem_files(secured: LocalCluster, tmp_path: Path) -> None:
    """Missing and broken files are mistakes in the configuration."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for file in (broken, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError) as told:
            cluster_id(with_security(secured.cluster(), tls=Tls(ca_file=str(file))))
        assert told.value.field == "security.tls"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_wrong_protocol(secured: LocalCluster, protocol: str) -> None:
    """Speaking in the clear to a TLS listener ends with a hint at the protocol, and soon."""
    begun = time.monotonic()
    with pytest.raises(ClusterError) as told:
        cluster_id(with_security(secured.cluster(), protocol=protocol))
    assert "protocol" in told.value.hint
    assert time.monotonic() - begun < 10


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


def test_no_token(secured: LocalCluster) -> None:
    """An endpoint that gives none is named, its secret is not."""
    with token_endpoint(b"no json") as (url, _):
        oauth = OAuth(token_endpoint_url=url, client_id="me", client_secret=Secret("s3cret"))
        with pytest.raises(AuthenticationFailed, match="token") as told:
            cluster_id(with_security(secured.cluster(), mechanism="OAUTHBEARER", oauth=oauth))
    assert "security.oauth" in told.value.hint
    assert "s3cret" not in f"{told.value} {told.value.hint}"


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
