"""Brokers that cannot be reached as they say: by other addresses, through proxies, and on a listener of their own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.control.doctor import examine
from isthmus.control.fabric import Fabric
from isthmus.errors import AuthenticationFailed, ClusterError, Unreachable
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import Cluster, Proxy, ProxyKind, Secret
from isthmus.model.configuration import Configuration
from isthmus.model.findings import Finding, Level
from isthmus.wire.client import Client
from isthmus.wire.dial import dial
from tests.faults.proxy import HOST
from tests.integration.control.gateways import ConnectGateway, Gateway, Hidden, SocksGateway, hidden_cluster
from tests.integration.control.running import configuration_of, link_of
from tests.integration.lane import topics

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
GATEWAYS: list[tuple[ProxyKind, type[Gateway]]] = [("socks5", SocksGateway), ("http", ConnectGateway)]
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


def test_forwarded_ports(hidden: Hidden, west: LocalCluster, topic: Namer, spark: SparkSession) -> None:
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
