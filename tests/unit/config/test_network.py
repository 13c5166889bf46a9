"""Addresses, proxies and client ids in the configuration file."""

from __future__ import annotations

import re

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.model.cluster import ClientProperties, Cluster, Proxy, Secret
from isthmus.model.configuration import Configuration
from isthmus.wire.address import reached_at, whereabouts

LINK = "links: [{name: a-b, source: a, target: b, topics: {include: [orders]}, %s}]"


def configured(settings: str, link: str = "groups: {}") -> Configuration:
    """A configuration whose cluster `a` has these settings."""
    text = f"clusters: {{a: {{bootstrap_servers: 'a:1', {settings}}}, b: {{bootstrap_servers: 'b:1'}}}}\n{LINK % link}"
    return config.parse(text, environment={"PASSWORD": "sesame"})


def cluster(settings: str) -> Cluster:
    """The cluster `a`."""
    return configured(settings).cluster("a")


def test_addresses() -> None:
    """A broker is reached by its entry whatever the case of its name, others as they say."""
    found = cluster("addresses: {'One.example:9092': '127.0.0.1:19092', '[::1]:9092': '[::2]:9093'}")
    assert reached_at(found, "one.example", 9092) == ("127.0.0.1", 19092)
    assert reached_at(found, "::1", 9092) == ("::2", 9093)
    assert reached_at(found, "one.example", 9093) == ("one.example", 9093)
    assert whereabouts(found, "one.example", 9092) == "a at one.example:9092 (reached at 127.0.0.1:19092)"
    assert whereabouts(found, "two.example", 9092) == "a at two.example:9092"


@pytest.mark.parametrize(
    ("written", "proxy"),
    [
        ("socks5://p:1080", Proxy(kind="socks5", address="p:1080")),
        ("socks5h://p:1080/", Proxy(kind="socks5", address="p:1080")),
        ("http://[::1]:3128", Proxy(kind="http", address="[::1]:3128")),
        (
            "{url: 'http://me@p:3128', password: '${env:PASSWORD}'}",
            Proxy(kind="http", address="p:3128", username="me", password=Secret("sesame")),
        ),
    ],
)
def test_proxies(written: str, proxy: Proxy) -> None:
    """The url is short for a section; names are left to the proxy in any case."""
    text = written if written.startswith("{") else f"'{written}'"
    assert cluster(f"proxy: {text}").proxy == proxy


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("proxy: 'ftp://p:1'", "clusters.a.proxy.url must be socks5://host:port or http://host:port"),
        ("proxy: 'http://p'", "clusters.a.proxy.url must be host:port"),
        ("proxy: 'http://me:sesame@p:1'", "clusters.a.proxy.url holds a password: give it as password beside the url"),
        ("proxy: 'http://me@p:1'", "clusters.a.proxy lacks a password for the user in url"),
        ("proxy: {url: 'http://p:1', password: '${env:PASSWORD}'}", "clusters.a.proxy lacks a user"),
        ("addresses: {'one:9092': 'two'}", "must be host:port"),
        ("addresses: {'one': 'two:9092'}", "must be host:port"),
        ("client_id: 'a b'", "clusters.a.client_id must consist of"),
    ],
)
def test_mistakes(settings: str, says: str) -> None:
    """They are told in plain words, and without a password."""
    with pytest.raises(ConfigError) as told:
        configured(settings)
    assert says in str(told.value)
    assert "sesame" not in str(told.value)


def test_client_ids() -> None:
    """A link has one of its own at both ends, whatever commands about a cluster use."""
    configuration = configured("client_id: admin")
    link = configuration.link("a-b")
    assert (link.source.client_id, link.target.client_id) == ("isthmus-a-b", "isthmus-a-b")
    assert [cluster.client_id for cluster in configuration.clusters] == ["admin", "isthmus"]
    given = configured("client_id: admin", "client_id: billing").link("a-b")
    assert (given.source.client_id, given.target.client_id) == ("billing", "billing")


def test_properties_of_clients() -> None:
    """Those that our clients take, by the names of Kafka's; all others are as they always are."""
    written = "{socket.connection.setup.timeout.ms: 20000, send.buffer.bytes: '65536', receive.buffer.bytes: -1}"
    assert cluster(f"properties: {written}").properties == ClientProperties(
        connection_setup_timeout_s=20.0, send_buffer_bytes=65536
    )
    assert cluster("properties: {ssl.enabled.protocols: TLSv1.3}").properties.tls_versions == {"TLSv1.3"}
    assert cluster("client_id: me").properties == ClientProperties()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("sasl.jaas.config: secret", "has a key of its own.*\n.*Write security.username and security.password"),
        ("ssl.truststore.location: secret", "has a key of its own.*\n.*Write security.tls.ca_file"),
        ("interceptor.classes: secret", "is not taken by Isthmus's clients.*\n.*Taken are"),
        ("recieve.buffer.bytes: 70000", "Did you mean receive.buffer.bytes"),
        ("receive.buffer.bytes: secret", "must be a number from 1024"),
        ("socket.connection.setup.timeout.ms: 5", "must be a number from 100 to 300000"),
        ("ssl.enabled.protocols: 'TLSv1.3,SSLv3'", "must be a list of TLSv1.2 and TLSv1.3"),
    ],
)
def test_properties_that_are_not_taken(written: str, says: str) -> None:
    """Anything else is refused by name, with what to write instead, and its value is never repeated."""
    with pytest.raises(ConfigError) as told:
        configured(f"properties: {{{written}}}")
    assert re.search(says, f"{told.value.message}\n{told.value.hint}", re.DOTALL)
    assert "secret" not in f"{told.value.message} {told.value.hint}"
