"""Clusters: addresses, logins, certificates, and that no secret is ever seen."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from isthmus.errors import ConfigError
from isthmus.interop.deployment import Impact
from isthmus.model.cluster import ClientProperties
from testing.values.samples import Bench, about, configured, imported, keys, pair

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = ("a.security.protocol = SASL_SSL", "a.sasl.mechanism = SCRAM-SHA-256")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority, once."""
    return trustme.CA()


def certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a PEM file."""
    return x509.load_pem_x509_certificates(pem)


def p12(authority: trustme.CA, password: str, *, with_key: bool) -> bytes:
    """A PKCS12 store: of a certificate with its key, or of the authority alone."""
    ca = certificates(authority.cert_pem.bytes())[0]
    protection = BestAvailableEncryption(password.encode())
    if not with_key:
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ca, b"ca")], protection)
    issued = authority.issue_cert("client")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    own = certificates(issued.cert_chain_pems[0].bytes())[0]
    return pkcs12.serialize_key_and_certificates(b"me", key, own, [ca], protection)


def test_addresses_are_taken_as_kafka_takes_them() -> None:
    """Spaces, protocols before hosts and IPv6 are no obstacle."""
    text = pair().replace("a.bootstrap.servers = a:1", "a.bootstrap.servers = a:1 , SSL://c.d:2,[::1]:3,")

    assert configured(imported(text)).clusters[0].bootstrap_servers == ("a:1", "c.d:2", "[::1]:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (pair().replace("a.bootstrap.servers = a:1\n", ""), "mm2.properties: a.bootstrap.servers is missing"),
        (
            pair().replace("= a:1", "= a"),
            "mm2.properties:2: a.bootstrap.servers holds an address that is not host:port",
        ),
        (pair("a.security.protocol = TLS"), "mm2.properties:5: a.security.protocol is no protocol of Kafka"),
        (pair("a.producer.security.protocol = TLS"), "mm2.properties:5: a.producer.security.protocol is no protocol"),
        (pair(*LOGIN, "a.sasl.jaas.config = hunter2"), "mm2.properties:7: a.sasl.jaas.config cannot be read"),
        (pair(*LOGIN, f'a.sasl.jaas.config = {SCRAM} username="x" password="hunter2'), "a quote without an end"),
        (pair(*LOGIN, f"a.sasl.jaas.config = {SCRAM} username hunter2;"), "name=value"),
    ],
)
def test_what_cannot_reach_a_cluster_is_refused(text: str, message: str) -> None:
    """The error names key and line, and never the value."""
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        imported(text)

    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_a_password_goes_into_a_file() -> None:
    """Neither the configuration nor the report shows it; the file holds it as it is."""
    draft = imported(pair(*LOGIN, f'a.sasl.jaas.config = {SCRAM} username="me" password="hunter\\\\"2 =;";'))

    security = configured(draft).clusters[0].security
    assert (security.protocol, security.mechanism, security.username) == ("SASL_SSL", "SCRAM-SHA-256", "me")
    assert 'password: "${file:isthmus.secrets/a.password}"' in draft.text
    assert [(each.name, each.content) for each in draft.companions] == [("isthmus.secrets/a.password", b'hunter"2 =;')]
    assert "hunter" not in draft.text + repr(draft)
    assert draft.is_complete


@pytest.mark.parametrize(
    ("reference", "written"),
    [
        ("${env:PASSWORD}", "${env:PASSWORD}"),
        ("${file:/run/mm2.properties:a}", "${file:/run/mm2.properties:a}"),
        ("${dir:/run/secrets:a}", "${file:/run/secrets/a}"),
        ("${own:mm2.properties:a}", "${file:/etc/mm2/mm2.properties:a}"),
    ],
)
def test_references_stay_references(reference: str, written: str) -> None:
    """Config providers of Kafka that have a counterpart are not resolved, so rotating goes on as before."""
    bench = Bench(
        files={"/run/mm2.properties": b"a=x", "/run/secrets/a": b"x\n", "mm2.properties": b"a=x"},
        variables={"PASSWORD": "x"},
    )
    providers = ("config.providers = own", "config.providers.own.class = org.apache.kafka.x.FileConfigProvider")
    draft = imported(
        pair(*LOGIN, *providers, f'a.sasl.jaas.config = {SCRAM} username="me" password="{reference}";'), bench
    )

    assert f'password: "{written}"' in draft.text
    assert draft.companions == ()
    assert draft.is_complete


def test_references_that_lead_nowhere_are_needed() -> None:
    """A file that is not here, and a provider that only Java has, are named with what to do."""
    away = pair(*LOGIN, f'a.sasl.jaas.config = {SCRAM} username="me" password="${{file:/gone:a}}";')
    vault = pair(
        *LOGIN,
        "config.providers = vault",
        "config.providers.vault.class = com.example.VaultConfigProvider",
        f'a.sasl.jaas.config = {SCRAM} username="me" password="${{vault:kv/a:p}}";',
    )

    assert "${file:/gone:a} leads nowhere" in about(imported(away), "a.sasl.jaas.config").why
    notice = about(imported(vault), "a.sasl.jaas.config")
    assert "no VaultConfigProvider" in notice.why
    assert "isthmus.secrets/a.password" in notice.todo


def test_a_login_that_stands_elsewhere_as_a_whole_is_taken_apart() -> None:
    """A reference to the whole of sasl.jaas.config is read, and the password kept in a file of its own."""
    jaas = f'{SCRAM} username=me password="hunter2";'
    draft = imported(pair(*LOGIN, "a.sasl.jaas.config = ${env:JAAS}"), Bench(variables={"JAAS": jaas}))

    assert draft.companions[0].content == b"hunter2"
    assert (
        about(imported(pair(*LOGIN, "a.sasl.jaas.config = ${env:JAAS}")), "a.sasl.jaas.config").impact is Impact.NEEDED
    )


@pytest.mark.parametrize(
    ("lines", "key", "hint"),
    [
        (("a.sasl.mechanism = GSSAPI",), "a.sasl.mechanism", "SCRAM user"),
        ((), "a.sasl.mechanism", "SCRAM user"),
        (("a.sasl.mechanism = AWS_MSK_IAM",), "a.sasl.mechanism", "MSK cluster"),
        (
            (
                "a.sasl.mechanism=OAUTHBEARER",
                "a.sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;",
            ),
            "a.sasl.mechanism",
            "MSK cluster",
        ),
        (
            ("a.sasl.mechanism = OAUTHBEARER", f"a.sasl.jaas.config={OAUTH};"),
            "a.sasl.jaas.config",
            "client with a secret",
        ),
        (("a.sasl.mechanism = PLAIN",), "a.sasl.jaas.config", "username and password"),
    ],
)
def test_logins_without_an_equivalent_are_named(lines: tuple[str, ...], key: str, hint: str) -> None:
    """Kerberos, IAM of Amazon and tokens from elsewhere cannot be used: the report says what can."""
    draft = imported(pair("a.security.protocol = SASL_SSL", *lines))

    assert keys(draft, Impact.NEEDED) == [key]
    assert hint in about(draft, key).todo


@pytest.mark.parametrize(
    "lines",
    [
        (
            "a.sasl.oauthbearer.token.endpoint.url = https://tokens/x",
            f'a.sasl.jaas.config = {OAUTH} clientId="me" clientSecret="hunter2" scope="kafka";',
        ),
        (
            f'a.sasl.jaas.config = {OAUTH} oauth.client.id="me" oauth.client.secret="hunter2" oauth.scope="kafka" '
            'oauth.token.endpoint.uri="https://tokens/x";',
        ),
        (
            "a.sasl.oauthbearer.token.endpoint.url = https://tokens/x",
            "a.sasl.oauthbearer.client.credentials.client.id = me",
            "a.sasl.oauthbearer.client.credentials.client.secret = hunter2",
            "a.sasl.oauthbearer.scope = kafka",
        ),
    ],
    ids=["kafka", "strimzi", "KIP-1258"],
)
def test_client_credentials_are_taken(lines: tuple[str, ...]) -> None:
    """Tokens by client id and secret, in each of the ways in which they are written."""
    draft = imported(pair("a.security.protocol = SASL_SSL", "a.sasl.mechanism = OAUTHBEARER", *lines))

    oauth = configured(draft).clusters[0].security.oauth
    assert oauth is not None
    assert (oauth.token_endpoint_url, oauth.client_id, oauth.scope) == ("https://tokens/x", "me", "kafka")
    assert [each.content for each in draft.companions] == [b"hunter2"]


def test_settings_of_single_clients_count_where_nothing_is_said_of_all() -> None:
    """A cluster has one login: that of its clients, and those that differ are told."""
    draft = imported(
        pair(
            "a.consumer.security.protocol = SSL",
            "a.admin.security.protocol = SSL",
            "a.producer.security.protocol = PLAINTEXT",
            "a.consumer.fetch.max.bytes = 1",
        )
    )

    assert configured(draft).clusters[0].security.protocol == "SSL"
    assert about(draft, "a.producer.security.protocol").impact is Impact.LOST
    assert about(draft, "a.consumer.fetch.max.bytes").impact is Impact.UNNEEDED


def test_properties_that_our_clients_take_are_passed() -> None:
    """Under their own names, from a single client where nothing is said of all; a value nobody could use is told."""
    draft = imported(
        pair(
            "a.receive.buffer.bytes = 65536",
            "a.consumer.send.buffer.bytes = 131072",
            "a.producer.send.buffer.bytes = 262144",
            "a.security.protocol = SSL",
            "a.ssl.enabled.protocols = SSLv3",
        )
    )

    properties = configured(draft).clusters[0].properties
    assert (properties.receive_buffer_bytes, properties.send_buffer_bytes) == (65536, 131072)
    assert about(draft, "a.producer.send.buffer.bytes").impact is Impact.CHANGED
    assert about(draft, "a.ssl.enabled.protocols").impact is Impact.LOST


def test_what_a_flow_says_of_its_clients_is_for_its_link() -> None:
    """Properties of a flow's clients become those of its link, by side; what no link can have is told."""
    draft = imported(
        pair(
            "b.send.buffer.bytes = 65536",
            "b.security.protocol = SSL",
            "a->b.source.consumer.receive.buffer.bytes = 2097152",
            "a->b.producer.override.send.buffer.bytes = 1048576",
            "a->b.target.producer.send.buffer.bytes = 4096",
            "a->b.producer.override.batch.size = 500000",
            "a->b.source.consumer.ssl.enabled.protocols = TLSv1.3",
            "a->b.target.producer.ssl.enabled.protocols = TLSv1.3",
            "a->b.target.admin.receive.buffer.bytes = hunter2",
            "a->b.producer.override.sasl.jaas.config = hunter2",
            "a->b.producer.override.security.protocol = SSL",
        )
    )
    configuration = configured(draft)
    (link,) = configuration.links

    assert link.source.properties == ClientProperties(receive_buffer_bytes=2097152)
    assert link.target.properties == ClientProperties(send_buffer_bytes=1048576, tls_versions=frozenset({"TLSv1.3"}))
    assert [each.properties.send_buffer_bytes for each in configuration.clusters] == [None, 65536]
    assert {
        key: about(draft, f"a->b.{key}").impact
        for key in (
            "target.producer.send.buffer.bytes",
            "producer.override.batch.size",
            "source.consumer.ssl.enabled.protocols",
            "target.admin.receive.buffer.bytes",
            "producer.override.sasl.jaas.config",
        )
    } == {
        "target.producer.send.buffer.bytes": Impact.CHANGED,
        "producer.override.batch.size": Impact.UNNEEDED,
        "source.consumer.ssl.enabled.protocols": Impact.UNNEEDED,
        "target.admin.receive.buffer.bytes": Impact.LOST,
        "producer.override.sasl.jaas.config": Impact.LOST,
    }
    assert "target_login" in about(draft, "a->b.producer.override.sasl.jaas.config").todo
    assert "a->b.producer.override.security.protocol" not in keys(draft, Impact.LOST)
    assert "hunter2" not in draft.text + repr(draft.notices)


@pytest.mark.parametrize(
    ("prefix", "sides"),
    [
        ("source.consumer.", ("source",)),
        ("source.producer.", ("source",)),
        ("source.admin.", ("source",)),
        ("consumer.", ("source",)),
        ("admin.", ("source", "target")),
        ("producer.", ("target",)),
        ("producer.override.", ("target",)),
        ("target.consumer.", ("target",)),
        ("target.producer.", ("target",)),
        ("target.admin.", ("target",)),
    ],
)
def test_each_client_of_a_flow_is_at_its_side(prefix: str, sides: tuple[str, ...]) -> None:
    """Whatever client of MirrorMaker 2 it is said of, the link has it where that client is connected."""
    (link,) = configured(imported(pair(f"a->b.{prefix}send.buffer.bytes = 4096"))).links

    ends = {"source": link.source, "target": link.target}
    assert {side for side, end in ends.items() if end.properties.send_buffer_bytes == 4096} == set(sides)


def test_other_rights_are_told_where_there_is_a_login() -> None:
    """What the user of MirrorMaker 2 may do is not all that Isthmus needs."""
    assert "acls generate" in about(imported(pair(*LOGIN)), "access rules").todo
    assert "access rules" not in keys(imported(pair()), Impact.CHANGED)


def test_protocols_are_read_in_any_case() -> None:
    """As MirrorMaker 2 reads them."""
    assert configured(imported(pair("a.security.protocol = ssl"))).cluster("a").security.protocol == "SSL"


def test_security_of_all_clusters_is_that_of_each() -> None:
    """What is said without an alias holds for every cluster, as in MirrorMaker 2."""
    configuration = configured(imported(pair("security.protocol = SSL", "ssl.endpoint.identification.algorithm =")))

    assert [cluster.security.tls.verify_hostname for cluster in configuration.clusters] == [False, False]


def test_pkcs12_stores_become_pem(authority: trustme.CA) -> None:
    """Authorities, the certificate with those that vouch for it, and its key, each in a file of its own."""
    bench = Bench(
        files={
            "/t.p12": p12(authority, "hunter2", with_key=False),
            "/k.p12": p12(authority, "hunter3", with_key=True),
        }
    )
    draft = imported(
        pair(
            "a.security.protocol = SSL",
            "a.ssl.truststore.location = /t.p12",
            "a.ssl.truststore.password = hunter2",
            "a.ssl.keystore.location = /k.p12",
            "a.ssl.keystore.password = ${env:STORE}",
        ),
        Bench(files=bench.files, variables={"STORE": "hunter3"}),
    )

    files = {each.name: each.content for each in draft.companions}
    ca = certificates(authority.cert_pem.bytes())
    assert certificates(files["isthmus.secrets/a.ca.pem"]) == ca
    assert certificates(files["isthmus.secrets/a.certificate.pem"])[1:] == ca
    assert load_pem_private_key(files["isthmus.secrets/a.key.pem"], None) is not None
    assert draft.is_complete
    assert "hunter" not in draft.text + repr(draft)


def test_jks_stores_become_pem(tmp_path: Path, authority: trustme.CA) -> None:
    """keytool reads them, with a password of the key that is not the store's."""
    command = ["keytool", "-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", "-storetype", "JKS"]
    store = tmp_path / "k.jks"
    command += ["-keystore", str(store), "-storepass", "hunter2", "-keypass", "hunter3"]
    subprocess.run(command, check=True, capture_output=True)
    lines = ("a.security.protocol=SSL", "a.ssl.keystore.location=/k.jks", "a.ssl.keystore.password=hunter2")
    bench = Bench(files={"/k.jks": store.read_bytes()})

    draft = imported(pair(*lines, "a.ssl.key.password = hunter3"), bench)
    without = imported(pair(*lines), bench)

    files = {each.name: each.content for each in draft.companions}
    assert len(certificates(files["isthmus.secrets/a.certificate.pem"])) == 1
    assert load_pem_private_key(files["isthmus.secrets/a.key.pem"], None) is not None
    assert "password of its own" in about(without, "a.ssl.keystore.location").why


def test_pem_stays_where_it_is(authority: trustme.CA) -> None:
    """Files that are PEM are named, PEM within the file becomes files, and the password of a key a secret."""
    issued = authority.issue_cert("client")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = issued.cert_chain_pems[0].bytes().decode().replace("\n", "\\n")
    secret = issued.private_key_pem.bytes().decode().replace("\n", "\\n")
    draft = imported(
        pair(
            "a.security.protocol = SSL",
            "a.ssl.truststore.type = PEM",
            "a.ssl.truststore.location = ca.pem",
            f"a.ssl.keystore.certificate.chain = {chain}",
            f"a.ssl.keystore.key = {secret}",
            "a.ssl.key.password = hunter2",
        ),
        Bench(files={"ca.pem": authority.cert_pem.bytes()}),
    )

    assert "/etc/mm2/ca.pem" in draft.text
    files = {each.name: each.content for each in draft.companions}
    assert files["isthmus.secrets/a.key.pem"] == issued.private_key_pem.bytes()
    assert files["isthmus.secrets/a.key_password"] == b"hunter2"
    assert draft.is_complete


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read here: No such file"),
        (b"0\x82junk", "has another password, or is damaged"),
        (b"\xfe\xed\xfe\xedjunk", "has another password, or is damaged"),
        (b"hello", "neither PEM nor PKCS12 nor JKS"),
    ],
)
def test_stores_that_cannot_be_read_are_told(content: bytes | None, reason: str) -> None:
    """The report says why, and how to make the PEM file the configuration names."""
    lines = ("a.security.protocol=SSL", "a.ssl.truststore.location=/t.jks", "a.ssl.truststore.password=hunter2")
    draft = imported(pair(*lines), Bench(files={} if content is None else {"/t.jks": content}))

    notice = about(draft, "a.ssl.truststore.location")
    assert reason in notice.why
    assert "keytool -importkeystore -srckeystore /t.jks" in notice.todo
    assert 'ca_file: "isthmus.secrets/a.ca.pem"' in draft.text
    assert "hunter2" not in draft.text + repr(draft.notices)


def test_what_the_protocol_does_not_use_is_told() -> None:
    """A password without a login, certificates without TLS: left out, and said so."""
    draft = imported(pair("a.sasl.jaas.config = hunter2", "a.ssl.truststore.location = /t"))

    assert set(keys(draft, Impact.UNNEEDED)) > {"a.sasl.jaas.config", "a.ssl.truststore.location"}
    assert draft.companions == ()


def test_secrets_that_end_a_line_are_refused() -> None:
    """No secret that is read from a file ends in a line end."""
    draft = imported(pair(*LOGIN, f'a.sasl.jaas.config = {SCRAM} username="me" password="hunter2\\\\n";'))

    assert about(draft, "a.sasl.jaas.config").impact is Impact.NEEDED
