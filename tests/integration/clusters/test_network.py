"""Brokers that cannot be reached as they say: by other addresses, through proxies, and on a listener of their own."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from pyspark.sql import SparkSession

from isthmus.errors import AuthenticationFailed, ClusterError, Unreachable
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.connect.dial import dial
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import Cluster, Login, Proxy, ProxyKind, Secret, Security, Tls
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.findings import Finding, Level
from isthmus.run.following import Following
from testing.brokers.hidden import ConnectGateway, Gateway, Hidden, SocksGateway, hidden_cluster
from testing.brokers.proxy import HOST
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.running import Running, configuration_of, ends, link_of, running
from testing.verbs import examine

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
GATEWAYS: list[tuple[ProxyKind, type[Gateway]]] = [("socks5", SocksGateway), ("http", ConnectGateway)]
COMMAND = [sys.executable, "-c", "from isthmus.cli.app import main; main()"]
LOGIN = ("mirror", "open sesame")


@pytest.fixture(scope="module")
def hidden() -> Iterator[Hidden]:
    """A cluster whose advertised names nobody can look up."""
    with hidden_cluster("hidden") as cluster:
        yield cluster


def by_addresses(hidden: Hidden) -> Cluster:
    """The cluster by the ports that are forwarded to its brokers."""
    addresses = tuple((name, f"{HOST}:{forwarder.port}") for name, forwarder in hidden.links.items())
    return Cluster(alias="hidden", bootstrap_servers=(next(iter(hidden.links)),), addresses=addresses)


def by_proxy(hidden: Hidden, kind: ProxyKind, address: str, **login: Any) -> Cluster:
    """The cluster as one behind the proxy sees it."""
    return Cluster(
        alias="hidden", bootstrap_servers=tuple(hidden.links), proxy=Proxy(kind=kind, address=address, **login)
    )


def ask(cluster: Cluster) -> int:
    """How many brokers there are, each of which was asked."""

    async def scenario() -> int:
        async with Client(cluster) as client:
            brokers = (await client.metadata()).brokers
            for node_id in brokers:
                await client.metadata(node_id=node_id)
            return len(brokers)

    return asyncio.run(scenario())


def refusal(cluster: Cluster, kind: type[ClusterError]) -> ClusterError:
    """How a connection fails."""
    with pytest.raises(kind) as told:
        ask(cluster)
    assert told.value.cluster == "hidden"
    return told.value


def examined(*clusters: Cluster) -> list[Finding]:
    """What `doctor` says of the network of these clusters."""
    found = asyncio.run(examine(Configuration(clusters=clusters, links=())))
    return [finding for finding in found if finding.check in ("network", "reachability")]


def test_one_side_behind_nat_by_forwarded_ports(
    hidden: Hidden, west: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """A run and a verification reach every broker where the configuration says, by the links' listener alone, and
    brokers hear the link's client id from all of it.
    """
    name = topic("forwarded")
    topics.create(hidden.cluster, name, partitions=4)
    topics.produce(hidden.cluster, name, topics.some(50, random.Random(1)))
    source = replace(by_addresses(hidden), client_id="isthmus-forwarded")
    link = link_of(source, west.cluster(), name, name="forwarded")
    hidden.forget()
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()["forwarded"]
    assert (verdict.equal, verdict.records) == (True, 50)
    for forwarder in hidden.links.values():
        assert forwarder.client_ids == {"isthmus-forwarded"}
    assert [forwarder.bytes for forwarder in hidden.clients] == [0, 0]
    # It would have been seen there.
    ask(Cluster(alias="hidden", bootstrap_servers=tuple(f"{HOST}:{each.port}" for each in hidden.clients)))
    assert [forwarder.client_ids for forwarder in hidden.clients] == [{"isthmus"}, {"isthmus"}]


def test_a_link_at_a_listener_of_its_own(hidden: Hidden, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
    """A link with a login at another listener than the cluster's own: no byte of the link goes through the clients'
    listener, by which commands about the cluster go on to ask.
    """
    name = topic("apart")
    topics.create(hidden.cluster, name, partitions=4)
    topics.produce(hidden.cluster, name, topics.some(50, random.Random(1)))
    # Links' brokers are reached by forwarded ports, clients' as they say.
    known = replace(by_addresses(hidden), bootstrap_servers=tuple(f"{HOST}:{each.port}" for each in hidden.clients))
    login = Login(name="links", bootstrap_servers=(next(iter(hidden.links)),), security=Security())
    known = replace(known, logins=(login,))
    link = link_of(replace(known.logged_in("links"), client_id="isthmus-apart"), west.cluster(), name, name="apart")
    hidden.forget()
    fabric = Fabric(replace(configuration_of(link), clusters=(known, west.cluster())), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()["apart"]
    assert (verdict.equal, verdict.records) == (True, 50)
    for forwarder in hidden.links.values():
        assert forwarder.client_ids == {"isthmus-apart"}
    assert fabric.cluster("hidden").describe().cluster_id == hidden.cluster.cluster_id
    assert set().union(*(forwarder.client_ids for forwarder in hidden.clients)) == {"isthmus"}


def test_bootstrap_servers_change_while_a_link_runs(
    hidden: Hidden, west: LocalCluster, topic: Namer, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """The file names other brokers of the cluster: the link is started anew with these, and goes on where it was."""
    name = topic("moved")
    topics.create(hidden.cluster, name)
    first, second = hidden.links
    written = [replace(by_addresses(hidden), bootstrap_servers=(server,)) for server in (first, second)]
    told = [configuration_of(link_of(source, west.cluster(), name, name=name)) for source in written]

    now = [told[0]]

    async def arrive(run: Running, end: int) -> None:
        topics.produce(hidden.cluster, name, topics.some(20, random.Random(end)))

        async def arrived() -> bool:
            return await ends(west, name) == [end]

        await run.until(arrived)

    async def scenario() -> None:
        async with running(told[0], spark, following=Following(reread=lambda: now[0], is_constant=True)) as run:
            await arrive(run, 20)
            now[0] = told[1]
            await run.until(lambda: f"link {name}: source changed, and it is restarted" in caplog.text)
            await arrive(run, 40)
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    assert oracle.records(west.admin_bootstrap_servers, name) == oracle.records(
        hidden.cluster.admin_bootstrap_servers, name
    )


def test_addresses_are_examined(hidden: Hidden) -> None:
    """Doctor tells the way to each broker and which address is of no use; without addresses a failure names them."""
    first, second = hidden.links
    known = by_addresses(hidden)
    misspelt = replace(known, addresses=(*known.addresses, ("broker-3.hidden.invalid:9092", "127.0.0.1:1")))
    found = {finding.message: finding for finding in examined(misspelt)}
    told = f"broker 2 advertises {second} and is reached at {HOST}:{hidden.links[second].port}"
    assert found[told].level is Level.OK
    (unused,) = [finding for finding in found.values() if finding.level is Level.WARN]
    assert "broker-3.hidden.invalid:9092, which no broker advertises" in unused.message
    half = replace(known, addresses=known.addresses[:1])
    error = refusal(half, Unreachable)
    assert "broker-2.hidden.invalid" in error.message
    assert "clusters.hidden.addresses" in error.hint
    gone = replace(known, addresses=((first, "127.0.0.1:1"),))
    assert f"hidden at {first} (reached at 127.0.0.1:1) does not answer" in refusal(gone, Unreachable).message


@pytest.mark.parametrize(("kind", "gateway"), GATEWAYS)
def test_run_through_a_proxy(
    hidden: Hidden,
    west: LocalCluster,
    topic: Namer,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
    kind: ProxyKind,
    gateway: type[Gateway],
) -> None:
    """Driver and tasks go through it with their login, names are looked up by it, and nobody tells the password."""
    name = topic(kind)
    topics.create(west, name, partitions=4)
    topics.produce(west, name, topics.some(50, random.Random(1)))
    user, password = LOGIN
    with gateway(hidden.ports, login=LOGIN) as proxy, caplog.at_level(logging.DEBUG):
        target = by_proxy(hidden, kind, proxy.address, username=user, password=Secret(password))
        fabric = Fabric(configuration_of(link_of(west.cluster(), target, name, name=name)), spark=spark)
        assert fabric.run(until="caught-up").exit_code == 0
        verdict = fabric.verify()[name]
        assert (verdict.equal, verdict.records) == (True, 50)
        assert set(proxy.connected) == set(hidden.ports)
        findings = examined(target)
    assert [f"reached as it says through the proxy {kind}://{proxy.address}" in f.message for f in findings] == [
        False,
        True,
        True,
    ]
    assert password not in "".join(
        (caplog.text, str(findings), repr(target), str(spark.sparkContext.getConf().getAll()))
    )


@pytest.mark.parametrize(("kind", "gateway"), GATEWAYS)
def test_what_a_proxy_refuses(hidden: Hidden, kind: ProxyKind, gateway: type[Gateway]) -> None:
    """A wrong login, none, a broker it does not let us to, a proxy that is away: which proxy it was, what to do."""
    user, password = LOGIN
    with gateway(hidden.ports, login=LOGIN) as proxy:
        who = f"the proxy {kind}://{proxy.address} of hidden"
        assert ask(by_proxy(hidden, kind, proxy.address, username=user, password=Secret(password))) == 2
        wrong = by_proxy(hidden, kind, proxy.address, username=user, password=Secret("wrong-one"))
        told = refusal(wrong, AuthenticationFailed)
        assert told.message == f"{who} refused the login for user {user}"
        assert "clusters.hidden.proxy.password" in told.hint
        assert "wrong-one" not in f"{told} {told.hint}"
        told = refusal(by_proxy(hidden, kind, proxy.address), AuthenticationFailed)
        assert told.message == f"{who} asks for a login"
        assert f"{kind}://user@host:port" in told.hint
    with gateway({}) as proxy:
        told = refusal(by_proxy(hidden, kind, proxy.address), Unreachable)
        assert f"the proxy {kind}://{proxy.address} of hidden does not connect to broker-" in told.message
        assert "its rules name hosts and ports" in told.hint
    away = f"{HOST}:{free_ports(1)[0]}"
    told = refusal(by_proxy(hidden, kind, away), Unreachable)
    assert told.message == f"the proxy {kind}://{away} of hidden does not answer: Connection refused"
    assert told.hint.startswith("Check clusters.hidden.proxy")


def test_the_other_kind_of_proxy(hidden: Hidden) -> None:
    """What does not answer as the configured kind is named, be it silent or a proxy of the other kind."""
    name, port = next(iter(hidden.ports)).rsplit(":", 1)
    with SocksGateway(hidden.ports) as socks, ConnectGateway(hidden.ports) as connect:
        for kind, address in (("socks5", connect.address), ("http", socks.address)):
            cluster = by_proxy(hidden, "socks5" if kind == "socks5" else "http", address)
            with pytest.raises(Unreachable) as told:
                dial(cluster, name, int(port), "isthmus", 0.3)
            assert f"the proxy {kind}://{address} of hidden does not answer" in told.value.message
            assert "clusters.hidden.proxy" in told.value.hint


@dataclass(slots=True)
class Rendezvous:
    """A relay and those who join it, each a process of its own, as people start them."""

    folder: Path
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> None:
        """Start `isthmus relay ...`, again if it has been ended."""
        command = [
            *COMMAND,
            "relay",
            *arguments,
            "--token",
            str(self.folder / "token"),
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def serve(self) -> None:
        """Start the relay."""
        pems = ("--tls-cert", str(self.folder / "relay.pem"), "--tls-key", str(self.folder / "relay.key"))
        self.start("relay", "serve", "--listen", f"{HOST}:{self.port}", *pems)

    def join(self, alias: str) -> None:
        """Start the agent of a cluster, which the file of its side knows."""
        ca = ("--tls-ca", str(self.folder / "ca.pem"))
        self.start(alias, "join", alias, "--relay", f"localhost:{self.port}", *ca, "-c", f"{alias}.yaml")

    def end(self, name: str) -> None:
        """Kill a process, in the middle of whatever it does."""
        self.processes[name].kill()
        self.processes[name].wait()

    def proxy(self, side: str) -> Proxy:
        """How links reach a side."""
        return Proxy(
            kind="relay",
            address=f"localhost:{self.port}",
            username=side,
            password=Secret((self.folder / "token").read_text().strip()),
            tls=Tls(ca_file=str(self.folder / "ca.pem")),
        )

    def reached(self, cluster: Cluster) -> None:
        """Wait until the brokers of a cluster can be reached through it."""
        deadline = time.monotonic() + TERM_S
        while True:
            try:
                ask(cluster)
                return
            except Unreachable:
                assert time.monotonic() < deadline, self.folder
                time.sleep(0.1)


@pytest.fixture
def rendezvous(tmp_path: Path, hidden: Hidden, guarded: LocalCluster) -> Iterator[Rendezvous]:
    """A relay that both clusters join, each from where its brokers can be reached."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "relay.pem")
    issued.private_key_pem.write_to_path(tmp_path / "relay.key")
    (tmp_path / "token").write_text("a token of this test\n")
    forwarded = {name: f"{HOST}:{forwarder.port}" for name, forwarder in hidden.links.items()}
    sides = {
        "hidden": {"bootstrap_servers": list(hidden.links), "addresses": forwarded},
        # Any listener tells the addresses of its own kind; the agent asks the one that links are to use.
        "guarded": {
            "bootstrap_servers": guarded.bootstrap_servers,
            "security": {
                "mechanism": "SCRAM-SHA-512",
                "username": "isthmus",
                "password": f"${{file:{guarded.credentials.password_file('isthmus')}}}",
                "tls": {"ca_file": str(guarded.credentials.ca_file)},
            },
        },
    }
    for alias, section in sides.items():
        (tmp_path / f"{alias}.yaml").write_text(yaml.safe_dump({"clusters": {alias: section}}))
    found = Rendezvous(tmp_path, free_ports(1)[0])
    try:
        found.serve()
        for alias in sides:
            found.join(alias)
        yield found
    finally:
        for name in found.processes:
            found.end(name)


def test_a_relay_between_two_sides_behind_nat(
    rendezvous: Rendezvous, hidden: Hidden, guarded: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """A link whose clusters are both reached through a relay alone, one of them over TLS of its own: relay and agents
    are killed and started again while records flow, and every record arrives once.
    """
    name = topic("relayed")
    source = Cluster(alias="hidden", bootstrap_servers=tuple(hidden.links), proxy=rendezvous.proxy("hidden"))
    target = replace(guarded.cluster(), proxy=rendezvous.proxy("guarded"))
    for cluster in (source, target):
        rendezvous.reached(cluster)
    topics.create(hidden.cluster, name, partitions=4)
    sent = 0

    async def scenario() -> None:
        nonlocal sent

        async def arrive(records: int) -> None:
            nonlocal sent
            topics.produce(hidden.cluster, name, topics.some(records, random.Random(sent)))
            sent += records

            async def arrived() -> bool:
                return sum(await ends(hidden.cluster, name, partitions=4)) == sum(
                    await ends(guarded, name, partitions=4)
                )

            await run.until(arrived)

        async with running(configuration_of(link_of(source, target, name, name=name)), spark) as run:
            await arrive(200)
            for broken, again in (
                ("relay", rendezvous.serve),
                ("hidden", partial(rendezvous.join, "hidden")),
                ("guarded", partial(rendezvous.join, "guarded")),
            ):
                rendezvous.end(broken)
                again()
                await arrive(200)
            await run.end()

    asyncio.run(scenario())
    copied = oracle.records(guarded.admin_bootstrap_servers, name, partitions=4)
    assert copied == oracle.records(hidden.cluster.admin_bootstrap_servers, name, partitions=4)
    assert sum(map(len, copied)) == sent == 800
    told = [finding.message for finding in examined(source, target)]
    assert sum(f"through the proxy relay://hidden@localhost:{rendezvous.port}" in message for message in told) == 2
    token = (rendezvous.folder / "token").read_text().strip()
    assert token not in "".join(file.read_text() for file in rendezvous.folder.glob("*.log"))


def test_what_a_relay_refuses(rendezvous: Rendezvous, hidden: Hidden, tmp_path: Path) -> None:
    """A side that nobody is, another token, a certificate that is not trusted, an address that is none of its brokers':
    why, and what to do; a relay that is away is told as one.
    """
    known = Cluster(alias="hidden", bootstrap_servers=tuple(hidden.links), proxy=rendezvous.proxy("hidden"))
    rendezvous.reached(known)
    proxy = rendezvous.proxy("hidden")

    def by(**changed: Any) -> Cluster:
        return replace(known, proxy=replace(proxy, **changed))

    told = refusal(by(username="nobody"), Unreachable)
    assert told.message.endswith("no side has joined as nobody")
    assert "isthmus relay join --as nobody" in told.hint
    told = refusal(by(password=Secret("guessed")), AuthenticationFailed)
    assert "refused the login" in told.message
    assert "guessed" not in f"{told.message} {told.hint}"
    told = refusal(by(tls=Tls()), AuthenticationFailed)
    assert "certificate that is not trusted" in told.message
    assert "clusters.hidden.proxy.tls.ca_file" in told.hint
    told = refusal(replace(known, bootstrap_servers=(f"{HOST}:22",)), Unreachable)
    assert told.message.endswith("hidden knows no such broker")
    rendezvous.end("relay")
    assert "does not answer" in refusal(known, Unreachable).message
    shown = subprocess.run(
        [*COMMAND, "relay", "join", "hidden", "--relay", "nowhere:1", "--dry-run",
         "-c", str(tmp_path / "hidden.yaml"), "--token", str(tmp_path / "token"), "-o", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [row["broker"] for row in json.loads(shown.stdout)] == sorted(hidden.links)
