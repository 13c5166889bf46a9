"""Addresses, proxies and client ids in the configuration file."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from isthmus import config
from isthmus.cli.setup.config import resolve_configuration
from isthmus.config.declared import declared_link
from isthmus.errors import ConfigError
from isthmus.kafka.connect.address import reached_at, whereabouts
from isthmus.links.reversal import reversed_settings
from isthmus.model.cluster import ClientProperties, Cluster, Proxy, Secret, Tls, ZooKeeper
from isthmus.model.configuration import Configuration
from isthmus.model.links.declaration import Declaration
from isthmus.model.registers import SETTINGS, Author, change_registers
from isthmus.run.following import change_of

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
        (
            "{url: 'relay://east@p:7443', password: '${env:PASSWORD}', tls: {ca_file: /ca.pem}}",
            Proxy(
                kind="relay",
                address="p:7443",
                username="east",
                password=Secret("sesame"),
                tls=Tls(ca_file="/ca.pem"),
            ),
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
        ("proxy: {url: 'relay://p:1', password: '${env:PASSWORD}'}", "clusters.a.proxy lacks the side that has joined"),
        ("proxy: 'relay://east@p:1'", "clusters.a.proxy lacks the side that has joined, or the token"),
        ("proxy: {url: 'http://p:1', tls: {ca_file: ca.pem}}", "clusters.a.proxy has tls, which a relay alone speaks"),
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
        ("interceptor.classes: secret", "is not taken by Isthmus's clients.*\n.*Accepted are"),
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


def test_properties_of_a_link() -> None:
    """They take the place of its clusters' for its connections alone, at one side if they say so."""
    written = "properties: {send.buffer.bytes: 65536, source.send.buffer.bytes: -1, target.receive.buffer.bytes: 4096}"
    configuration = configured("properties: {send.buffer.bytes: 1024, receive.buffer.bytes: 2048}", written)
    link = configuration.link("a-b")

    assert link.source.properties == ClientProperties(receive_buffer_bytes=2048)
    assert link.target.properties == ClientProperties(send_buffer_bytes=65536, receive_buffer_bytes=4096)
    assert configuration.cluster("a").properties.send_buffer_bytes == 1024


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("source.sasl.jaas.config: secret", "has a key of its own.*\n.*Write security.username and security.password"),
        ("both.send.buffer.bytes: secret", "is not taken by Isthmus's clients.*\n.*Accepted are.*source. or target."),
        ("target.send.buffer.bytes: secret", "must be a number from 1024"),
    ],
)
def test_properties_that_a_link_does_not_take(written: str, says: str) -> None:
    """What a cluster does not take no link takes either, at neither side."""
    with pytest.raises(ConfigError) as told:
        configured("client_id: me", f"properties: {{{written}}}")
    assert told.value.field == f"links[0].properties.{written.partition(':')[0]}"
    assert re.search(says, f"{told.value.message}\n{told.value.hint}", re.DOTALL)
    assert "secret" not in f"{told.value.message} {told.value.hint}"


LOGINS = "logins: {mirror: {bootstrap_servers: 'a:2', security: {mechanism: PLAIN, username: m, password: sesame}}}"


def test_logins_of_links() -> None:
    """A link that names one is at its listener as its user; the cluster itself and the other side stay as they are."""
    configuration = configured(LOGINS, "source_login: mirror")
    link = configuration.link("a-b")
    assert (link.source.bootstrap_servers, link.source.security.username) == (("a:2",), "m")
    assert (link.source.login, link.source.client_id, link.target.login) == ("mirror", "isthmus-a-b", "")
    assert configuration.cluster("a").security.username is None
    plain = configured(LOGINS).link("a-b")
    assert (plain.source.bootstrap_servers, plain.source.login) == (("a:1",), "")
    assert change_of(plain, link).waiting == ("source",)


def test_logins_of_clients_with_certificates() -> None:
    """The subjects of certificates are patterns, and are shown as they were written."""
    configuration = configured(LOGINS.replace("sesame}}}", "sesame}, certificates: ['/CN=m,.*/', CN=n]}}"))
    (login,) = configuration.cluster("a").logins
    assert [str(each) for each in login.certificates] == ["/CN=m,.*/", "CN=n"]
    assert "'certificates': ['/CN=m,.*/', 'CN=n']" in str(resolve_configuration(configuration))


def test_a_declared_link_names_its_logins() -> None:
    """What is declared holds the name; who does not have it in the file is told, and does not run the link."""
    registers = change_registers((), {f"{SETTINGS}source_login": "mirror"}, Author(by="me", at_ms=1, where="cluster"))
    declared = Declaration(name="a-b", registers=registers)
    known, other = configured(LOGINS).cluster("a"), Cluster(alias="b", bootstrap_servers=("b:1",))
    assert declared_link(declared, known, other).source.security.username == "m"
    with pytest.raises(ConfigError, match=r"clusters\.b\.logins has no mirror") as told:
        declared_link(declared, other, known)
    assert "of the operator who runs the link" in told.value.hint
    assert reversed_settings(declared.settings, ()) == {"target_login": "mirror"}


def test_a_declared_link_has_properties() -> None:
    """They are set one by one, and change sides when the link is reversed."""
    settings = {f"{SETTINGS}properties.source.send.buffer.bytes": 4096, f"{SETTINGS}properties.receive.buffer.bytes": 1}
    declared = Declaration(
        name="a-b", registers=change_registers((), settings, Author(by="me", at_ms=1, where="cluster"))
    )
    ends = configured("client_id: me").clusters
    with pytest.raises(ConfigError, match=r"link a-b: properties\.receive\.buffer\.bytes must be a number from 1024"):
        declared_link(declared, *ends)
    sound = replace(declared, registers=tuple(each for each in declared.registers if each.decoded != 1))
    assert declared_link(sound, *ends).source.properties == ClientProperties(send_buffer_bytes=4096)
    assert reversed_settings(sound.settings, ()) == {"properties.target.send.buffer.bytes": 4096}


@pytest.mark.parametrize(
    ("settings", "link", "says"),
    [
        (LOGINS, "source_login: mirrer", "links[0].source_login is none of clusters.a.logins"),
        (LOGINS, "target_login: mirror", "links[0].target_login is none of clusters.b.logins"),
        ("logins: {m: {security: {mechanism: PLAIN}}}", "", "clusters.a.logins.m.security.username is missing"),
        ("logins: {m: {certificates: ['CN=a']}, n: {certificates: ['CN=a']}}", "", "CN=a, which login m has as well"),
        ("logins: {m: {certificates: ['/CN=(a/']}}", "", "clusters.a.logins.m.certificates[0] cannot be used"),
        ("logins: {m: {certificates: ['']}}", "", "clusters.a.logins.m.certificates[0]"),
    ],
)
def test_mistakes_about_logins(settings: str, link: str, says: str) -> None:
    """They are told by key, and what is a secret is not."""
    with pytest.raises(ConfigError) as told:
        configured(settings, link or "groups: {}")
    assert says in str(told.value)
    assert "sesame" not in str(told.value)


def test_zookeepers() -> None:
    """The address alone is short for a section; a login has a user and a password, or there is none."""
    assert cluster("zookeeper: 'z:2181/kafka'").zookeeper == ZooKeeper(connect="z:2181/kafka")
    found = cluster("zookeeper: {connect: 'z:2182', username: me, password: '${env:PASSWORD}', tls: {}}").zookeeper
    assert found == ZooKeeper(connect="z:2182", username="me", password=Secret("sesame"), tls=Tls())
    for settings in ("username: me", "password: '${env:PASSWORD}'"):
        with pytest.raises(ConfigError, match=r"clusters\.a\.zookeeper lacks a (username|password)"):
            configured(f"zookeeper: {{connect: 'z:1', {settings}}}")
