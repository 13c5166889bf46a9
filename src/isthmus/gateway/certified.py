"""Clients with certificates: the subjects of these, and the logins by which a gateway logs the clients in. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cryptography import x509

from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka.connect.security import uses_sasl
from isthmus.model.cluster import Cluster, Login
from isthmus.model.gateways.figures import Refusal
from isthmus.model.text.patterns import NamePattern

_OPTION: Final = "--tls-client-ca"
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class NotAdmitted(Exception):
    """A client is refused, for a reason that is counted."""

    def __init__(self, refusal: Refusal, why: str) -> None:
        super().__init__(why)
        self.refusal = refusal


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as Kafka's brokers write it (RFC 2253): `CN=orders,OU=apps,O=Example`.

    :raises ValueError: It is no certificate.
    """
    parts = x509.load_der_x509_certificate(certificate).subject.rdns
    return ",".join("+".join(map(_write_attribute, part)) for part in reversed(parts))


def check_dates(certificate: bytes, at: datetime) -> None:
    """Require that a certificate (DER) has not expired by then. A handshake that resumes a TLS session does not check
    that.

    :raises NotAdmitted: It has expired.
    :raises ValueError: It is no certificate.
    """
    end = x509.load_der_x509_certificate(certificate).not_valid_after_utc
    if at > end:
        raise NotAdmitted(Refusal.HANDSHAKE, f"its certificate has expired: it was good until {end:%Y-%m-%dT%H:%M:%SZ}")


def _write_attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    name = attribute.rfc4514_attribute_name
    if name[0].isdigit() or isinstance(attribute.value, bytes):
        # Without a short name the encoded bytes are written instead of the value.
        return f"{name}=#{_encode_value(attribute).hex()}"
    return f"{name}={_escape(attribute.value)}"


def _encode_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Encode the value in DER: the bytes behind the identifier in a name that has only this attribute."""
    data, at = x509.Name([attribute]).public_bytes(), 0
    for _ in range(3):
        at += 2 + (data[at + 1] & 0x7F if data[at + 1] > 0x7F else 0)
    return data[at + 2 + data[at + 1] :]


def _escape(value: str) -> str:
    """Escape a value as Java does, which escapes more than RFC 4514 asks for."""
    found = "".join(f"\\{each}" if each in _ESCAPED else each for each in value).replace("\0", "\\00")
    bare = found.strip(" ")
    head = len(found) - len(found.lstrip(" "))
    return "\\ " * head + bare + "\\ " * (len(found) - head - len(bare))


def choose_login(cluster: Cluster, subject: str | None) -> Cluster:
    """Return the cluster with the login for a client whose certificate has this subject, `None` without a certificate.

    :raises NotAdmitted: There is no login for it.
    """
    if subject is None:
        if is_certificate_needed(cluster):
            raise NotAdmitted(
                Refusal.CERTIFICATE,
                f"it has no certificate, and brokers of {cluster.alias} know clients by nothing else",
            )
        return cluster
    found = [login.name for login in cluster.logins if any(each.matches(subject) for each in login.certificates)]
    if len(found) == 1:
        return cluster.logged_in(found[0])
    which = f"several logins of {cluster.alias}: {', '.join(found)}" if found else f"no login of {cluster.alias}"
    raise NotAdmitted(Refusal.CERTIFICATE, f"its certificate {subject or 'without a subject'} belongs to {which}")


def lacking(here: Cluster, there: Cluster) -> tuple[str, ...]:
    """Find the certificates of logins of one cluster that no login of another one has: those clients would be refused
    there. A pattern is covered by the same one, or by a broader one that is no regular expression.
    """
    known = [each for login in there.logins if not _find_login_problem(there, login) for each in login.certificates]
    wanted = {each for login in here.logins for each in login.certificates}
    return tuple(sorted(str(each) for each in wanted if not any(_covers(other, each) for other in known)))


def _covers(pattern: NamePattern, other: NamePattern) -> bool:
    if other.kind == "literal":
        return pattern.matches(other.value)
    return pattern == other or (pattern.kind == other.kind == "prefix" and other.value.startswith(pattern.value))


def is_certificate_needed(cluster: Cluster) -> bool:
    """Whether its brokers know us by our own certificate, by which requests of clients must not be forwarded."""
    return cluster.security.protocol == "SSL" and cluster.security.tls.certificate_file is not None


def check_logins(cluster: Cluster) -> None:
    """Require that clients of the cluster can be logged in by their certificates.

    :raises ConfigError: No login has certificates.
    :raises PlanRefused: A login that names certificates cannot be used by a gateway.
    """
    logins = [login for login in cluster.logins if login.certificates]
    if not logins:
        raise ConfigError(
            f"with {_OPTION} clients log in by their certificates, and no login of {cluster.alias} has any",
            field=f"clusters.{cluster.alias}.logins",
            hint="Give them certificates, such as CN=orders,O=Example, or leave the option out.",
        )
    for login in logins:
        if problem := _find_login_problem(cluster, login):
            raise PlanRefused(
                f"no gateway can log clients in by login {login.name} of {cluster.alias}: {problem[0]}",
                hint=problem[1],
            )


def _find_login_problem(cluster: Cluster, login: Login) -> tuple[str, str] | None:
    """Return why a gateway cannot use a login, and a hint; `None` if it can."""
    ours, theirs = cluster.security.protocol, login.security.protocol
    if login.bootstrap_servers:
        return (
            "it has bootstrap_servers of its own, and all clients are led to those of the cluster",
            "Leave its bootstrap_servers out, or give the certificates to another login.",
        )
    if theirs != ours:
        return (
            f"its protocol is {theirs}, and the gateway connects to the cluster's listener by {ours}",
            "Give both the same security.protocol.",
        )
    if not (uses_sasl(login.security) or login.security.tls.certificate_file):
        return (
            "it has neither a user nor a certificate",
            "Give it a mechanism, a username and a password, or its own certificate where brokers ask for one.",
        )
    return None
