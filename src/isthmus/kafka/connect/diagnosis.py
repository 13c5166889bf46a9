"""Explains why a connection to a listener failed, with a hint, by asking the listener again."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from typing import Final

from kafka.protocol.sasl import SaslHandshakeRequest

from isthmus.deadline import Deadline
from isthmus.errors import AnotherCluster, AuthenticationFailed, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.connect.address import whereabouts
from isthmus.kafka.connect.certificates import tls_context
from isthmus.kafka.connect.exchange import Exchange, NotKafka, SpeaksTls, api_versions
from isthmus.kafka.connect.reach import reach
from isthmus.kafka.connect.security import uses_sasl, uses_tls
from isthmus.kafka.connect.tunnel import wrap_tls
from isthmus.model.cluster import CLIENT_ID, Cluster, Security

_ASKING_S: Final = 2.0
_OTHER_PORT: Final = "or give bootstrap_servers the port of the listener that is meant"
_OTHER_HOST: Final = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_OUT_OF_DATE: Final = {9: "is not valid yet", 10: "has expired"}
_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
_CERTIFICATE_ALERT: Final = "CERTIFICATE"
"""Part of the names of all alerts about our certificate, such as TLSV13_ALERT_CERTIFICATE_REQUIRED."""
_VERSION_ALERTS: Final = ("PROTOCOL", "HANDSHAKE_FAILURE", "NO_SHARED_CIPHER", "INSUFFICIENT_SECURITY")


def build_unreached(error: OSError, cluster: Cluster, where: str) -> ClusterError:
    """Build the error for a failed TCP connection."""
    elsewhere = f"where brokers have another address from here, give it in clusters.{cluster.alias}.addresses."
    if isinstance(error, socket.gaierror):
        message = f"{where} has no known address: {error.strerror}"
        hint = f"Check the host name in bootstrap_servers, or in the advertised listeners of the brokers; {elsewhere}"
    else:
        # A time-out of ours has no text.
        why = error.strerror or str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)
        message = f"{where} does not answer: {why}"
        hint = (
            "Check that the brokers run and that bootstrap_servers and the advertised listeners are reachable; "
            f"{elsewhere}"
        )
    return Unreachable(message, cluster=cluster.alias, hint=hint)


def another_cluster(alias: str, where: str, *, meant: str, found: str) -> AnotherCluster:
    """Build the error for a cluster with the id `found` that answers instead of the expected one."""
    return AnotherCluster(
        f"{where} leads to another cluster: {found} answers, and {alias} is {meant}",
        cluster=alias,
        hint=f"Correct bootstrap_servers and addresses of {alias}, or what its names resolve to. Nothing is read or "
        "written there; it goes on by itself when the right cluster answers. If the cluster was created again, it is "
        "another one: start the run again.",
    )


def misunderstood(error: OSError, cluster: Cluster, host: str, port: int) -> ClusterError:
    """Build the error for a connection that ended in TLS or in its first request."""
    where = whereabouts(cluster, host, port)
    if isinstance(error, SpeaksTls):
        choice = "SASL_SSL" if uses_sasl(cluster.security) else "SSL (SASL_SSL where it asks for a login)"
        return _wrong_protocol_error(f"{where} speaks TLS", cluster, choice)
    if isinstance(error, NotKafka):
        return Unreachable(
            f"{where} does not answer as a Kafka broker does",
            cluster=cluster.alias,
            hint="Check host and port in bootstrap_servers: they may be those of something else.",
        )
    if isinstance(error, TimeoutError):
        return build_unreached(error, cluster, where)
    if isinstance(error, ssl.SSLError) and not (isinstance(error, _ENDED) or error.reason in _NOT_TLS):
        return _tls_error(error, cluster, where)
    if uses_tls(cluster.security) and (clear := _find_plain_protocol(cluster, host, port)):
        return _wrong_protocol_error(f"{where} does not speak TLS", cluster, f"{clear} and leave out security.tls")
    during = " during the TLS handshake" if isinstance(error, ssl.SSLError) else ""
    return Unreachable(
        f"{where} broke the connection off{during}: {error.strerror or error}",
        cluster=cluster.alias,
        hint="The broker may be stopping or overloaded; else check that the port speaks the configured "
        "security.protocol.",
    )


def no_mechanism(code: int, offered: list[str], cluster: Cluster, where: str) -> ClusterError:
    """Build the error for a listener that answered `code` to our SASL mechanism."""
    security = cluster.security
    if code == codes.ILLEGAL_SASL_STATE:
        protocol = security.protocol.removeprefix("SASL_")
        return AuthenticationFailed(
            f"{where} asks for no login, and security.protocol is {security.protocol}",
            cluster=cluster.alias,
            hint=f"Set security.protocol of {cluster.alias} to {protocol} and leave out what belongs to a login, "
            f"{_OTHER_PORT}.",
        )
    return AuthenticationFailed(
        f"{where} does not offer the mechanism {security.mechanism}",
        cluster=cluster.alias,
        hint=f"Set security.mechanism of {cluster.alias} to one it offers: {', '.join(sorted(offered)) or 'none'}.",
    )


def missing_login(cluster: Cluster, host: str, port: int) -> ClusterError | None:
    """Build the error if this listener requires a login and we have none, else `None`. Blocking, for a thread."""
    mechanisms = _ask_mechanisms(cluster, host, port)
    if not mechanisms:
        return None
    protocol = cluster.security.protocol
    asked = "SASL_SSL" if uses_tls(cluster.security) else "SASL_PLAINTEXT"
    return AuthenticationFailed(
        f"{whereabouts(cluster, host, port)} asks for a login, and security.protocol is {protocol}",
        cluster=cluster.alias,
        hint=f"Set security.protocol of {cluster.alias} to {asked}, with a mechanism it offers "
        f"({', '.join(mechanisms)}) and its settings, {_OTHER_PORT}.",
    )


def _tls_error(error: ssl.SSLError, cluster: Cluster, where: str) -> ClusterError:
    tls, reason = cluster.security.tls, error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust_error(error, cluster, where)
    message, hint = f"{where} refused TLS: {reason}", "The broker's log may have details."
    if _CERTIFICATE_ALERT in reason or reason.endswith("UNKNOWN_CA"):
        if tls.certificate_file is None:
            message = f"{where} asks for a client certificate, and there is none in security.tls"
            hint = f"Give security.tls.certificate_file and key_file of {cluster.alias}, {_OTHER_PORT}."
        else:
            message = f"{where} does not accept the certificate in {tls.certificate_file}: {reason}"
            hint = "Have it signed by an authority that the brokers trust (their ssl.truststore), and renew it in time."
    elif any(part in reason for part in _VERSION_ALERTS):
        message = f"{where} has no version or cipher of TLS in common with us: {reason}"
        hint = "Let the brokers offer TLS 1.2 or 1.3 (their ssl.enabled.protocols)."
    return AuthenticationFailed(message, cluster=cluster.alias, hint=hint)


def _distrust_error(error: ssl.SSLCertVerificationError, cluster: Cluster, where: str) -> ClusterError:
    tls = cluster.security.tls
    if error.verify_code in _OTHER_HOST:
        message = f"{where} shows a certificate for another host: {error.verify_message}"
        hint = (
            "Name the brokers in bootstrap_servers and in their advertised listeners as the certificate does, or set "
            f"security.tls.verify_hostname of {cluster.alias} to false."
        )
    elif error.verify_code in _OUT_OF_DATE:
        message = f"{where} shows a certificate that {_OUT_OF_DATE[error.verify_code]}"
        hint = "Renew the broker's certificate; or this host's clock is wrong."
    else:
        trusted = f"the authorities in {tls.ca_file}" if tls.ca_file else "the authorities this system trusts"
        message = f"{where} shows a certificate that does not come from {trusted}: {error.verify_message}"
        hint = f"Give in security.tls.ca_file of {cluster.alias} the authority that signed the brokers' certificates."
    return AuthenticationFailed(message, cluster=cluster.alias, hint=hint)


def _wrong_protocol_error(finding: str, cluster: Cluster, choice: str) -> ClusterError:
    return AuthenticationFailed(
        f"{finding}, and security.protocol is {cluster.security.protocol}",
        cluster=cluster.alias,
        hint=f"Set security.protocol of {cluster.alias} to {choice}, {_OTHER_PORT}.",
    )


def _find_plain_protocol(cluster: Cluster, host: str, port: int) -> str | None:
    """The protocol of a listener without TLS; `None` if it uses TLS, or does not answer now."""
    mechanisms = _ask_mechanisms(replace(cluster, security=Security()), host, port)
    if mechanisms is None:
        return None
    return "SASL_PLAINTEXT" if mechanisms else "PLAINTEXT"


def _ask_mechanisms(cluster: Cluster, host: str, port: int) -> list[str] | None:
    """The mechanisms of a listener, empty if it requires no login; `None` if it does not answer."""
    deadline = Deadline(_ASKING_S)
    try:
        with reach(cluster, host, port, _ASKING_S) as sock:
            if not uses_tls(cluster.security):
                return _list_mechanisms(sock, deadline)
            with wrap_tls(sock, tls_context(cluster), host) as inner:
                return _list_mechanisms(inner, deadline)
    except (OSError, ClusterError):
        return None


def _list_mechanisms(sock: socket.socket, deadline: Deadline) -> list[str]:
    exchange = Exchange(sock, CLIENT_ID, deadline)
    api_versions(exchange)
    answer = exchange(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return [] if answer.error_code == codes.ILLEGAL_SASL_STATE else sorted(answer.mechanisms)
