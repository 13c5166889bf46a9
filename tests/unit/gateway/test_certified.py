"""Which login a certificate stands for, and what its subject is called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from isthmus.errors import ConfigError, PlanRefused
from isthmus.gateway.certified import NotAdmitted, check_logins, choose_login, lacking, subject_of
from isthmus.gateway.frames.messages import SASL_AUTHENTICATE, SASL_HANDSHAKE
from isthmus.gateway.frames.rewriting import refused_login
from isthmus.kafka import codes
from isthmus.kafka.connect.frames import decode_response, encode_request
from isthmus.model.cluster import Cluster, Login, Secret, Security, Tls
from isthmus.model.gateways.figures import Refusal
from isthmus.model.text.patterns import NamePattern


def certificate(*subject: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate with this subject, as DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    return builder.not_valid_after(datetime(2050, 1, 1, tzinfo=UTC)).sign(key, SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        (
            [(NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Acme, Inc."), (NameOID.COMMON_NAME, "a=b")],
            r"CN=a\=b,O=Acme\, Inc.,C=DE",
        ),
        (
            [(NameOID.ORGANIZATIONAL_UNIT_NAME, "one"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "two")],
            "OU=two,OU=one",
        ),
        ([(NameOID.ORGANIZATION_NAME, " sp "), (NameOID.COMMON_NAME, "#x#")], r"CN=\#x\#,O=\ sp\ "),
        ([(NameOID.COMMON_NAME, 'ü<>;"q\\')], r"CN=ü\<\>\;\"q\\"),
        ([(NameOID.DOMAIN_COMPONENT, "f"), (NameOID.DOMAIN_COMPONENT, "e"), (NameOID.USER_ID, "u")], "UID=u,DC=e,DC=f"),
        (
            [(NameOID.EMAIL_ADDRESS, "a@b.c"), (NameOID.TITLE, "t"), (NameOID.STREET_ADDRESS, "s")],
            "STREET=s,2.5.4.12=#0c0174,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([(NameOID.COMMON_NAME, " ")], "CN=\\ "),
        ([], ""),
    ],
)
def test_subjects_are_written_as_java_does(subject: list[tuple[x509.ObjectIdentifier, str]], written: str) -> None:
    """What `X500Principal.getName()` of Java 17 gave for the same subjects."""
    assert subject_of(certificate(*subject)) == written


PASSWORD = Security(protocol="SASL_SSL", mechanism="PLAIN", username="orders", password=Secret("sesame"))
ORDERS = Login(name="orders", security=PASSWORD, certificates=(NamePattern.split("CN=orders,O=Example"),))
ALL = Login(name="all", security=PASSWORD, certificates=(NamePattern.split("/CN=(orders|bills),O=Exa.*/"),))
LINK = Login(name="link", security=PASSWORD)
EAST = Cluster(alias="east", bootstrap_servers=("e:1",), security=PASSWORD, logins=(LINK, ORDERS))


def test_a_certificate_stands_for_one_login() -> None:
    """One that no login has, or more than one, is refused with its name; without a certificate nothing changes."""
    assert choose_login(EAST, "CN=orders,O=Example").login == "orders"
    assert choose_login(EAST, None) is EAST
    both = replace(EAST, logins=(ORDERS, ALL))
    assert choose_login(both, "CN=bills,O=Example").login == "all"
    for cluster, subject, why in (
        (EAST, "CN=orders", "CN=orders belongs to no login of east"),
        (EAST, "CN=orders,O=Example,C=DE", "belongs to no login"),
        (EAST, "", "its certificate without a subject belongs to no login"),
        (both, "CN=orders,O=Example", "belongs to several logins of east: orders, all"),
    ):
        with pytest.raises(NotAdmitted, match=why) as told:
            choose_login(cluster, subject)
        assert told.value.refusal is Refusal.CERTIFICATE
    own = replace(EAST, security=Security(protocol="SSL", tls=Tls(certificate_file="gateway.pem")))
    with pytest.raises(NotAdmitted, match="it has no certificate"):
        choose_login(own, None)


def test_certificates_that_another_cluster_has_no_login_for() -> None:
    """What a broader pattern there stands for is known, and so is an expression that is there as it is."""

    def of(alias: str, *patterns: str, security: Security = PASSWORD) -> Cluster:
        login = Login(name="one", security=security, certificates=tuple(map(NamePattern.split, patterns)))
        return replace(EAST, alias=alias, logins=(LINK, login))

    here = of("east", "CN=orders", "CN=bills", "CN=app-*", "/CN=job-[0-9]+/")
    assert lacking(here, here) == ()
    assert lacking(here, of("west", "CN=*", "/CN=job-[0-9]+/")) == ()
    assert lacking(here, of("west", "/.*/")) == ("/CN=job-[0-9]+/", "CN=app-*")
    assert lacking(here, of("west", "CN=orders", "CN=app-1*")) == ("/CN=job-[0-9]+/", "CN=app-*", "CN=bills")
    assert lacking(of("east"), of("west")) == ()
    of_no_use = replace(PASSWORD, protocol="SASL_PLAINTEXT")
    assert lacking(of("east", "CN=orders"), of("west", "CN=orders", security=of_no_use)) == ("CN=orders",)


def test_logins_that_are_of_no_use() -> None:
    """They are named before anybody connects."""
    check_logins(EAST)
    with pytest.raises(ConfigError, match="no login of east has any"):
        check_logins(replace(EAST, logins=(LINK,)))
    for login, why in (
        (replace(ORDERS, bootstrap_servers=("e:2",)), "it has bootstrap_servers of its own"),
        (replace(ORDERS, security=replace(PASSWORD, protocol="SASL_PLAINTEXT")), "its protocol is SASL_PLAINTEXT"),
    ):
        with pytest.raises(PlanRefused, match=f"login orders of east: {why}"):
            check_logins(replace(EAST, logins=(LINK, login)))
    plain = Security(protocol="SSL")
    with pytest.raises(PlanRefused, match="neither a user nor a certificate"):
        check_logins(replace(EAST, security=plain, logins=(replace(ORDERS, security=plain),)))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_on_top_of_a_certificate_is_answered_as_a_broker_does(version: int) -> None:
    """Clients can read the answer, in every version that passes."""
    tried = {SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b"x")}
    if version == 1:
        tried[SASL_HANDSHAKE] = SaslHandshakeRequest(mechanism="PLAIN")
    for key, request in tried.items():
        encode_request(request, version, 7, "me")
        answer = refused_login(key, version, 7)
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        assert decode_response(request, version, memoryview(answer)[4:], 7).error_code == codes.ILLEGAL_SASL_STATE
