"""PEM files: the TLS contexts built from them, and why a file cannot be used."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isthmus.errors import ConfigError, Unreachable
from isthmus.model.cluster import TLS_VERSIONS, Cluster, Tls


@dataclass(frozen=True, slots=True)
class PemProblem:
    """A file that cannot be used. `key` is its name below `security.tls`, `reason` continues "which"."""

    key: str
    file: str
    reason: str

    def message(self, cluster: str, section: str = "security") -> str:
        """The full message, for this section of the cluster with this alias."""
        return f"clusters.{cluster}.{section}.tls.{self.key} names {self.file}, which {self.reason}"


HINT = "Put a PEM file there and let the user who runs Isthmus read it."


_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def pem_problems(tls: Tls) -> Iterator[PemProblem]:
    """Yield the files that cannot be used at this moment."""
    named = {"ca_file": tls.ca_file, "certificate_file": tls.certificate_file, "key_file": tls.key_file}
    unread = [
        PemProblem(key, file, reason) for key, file in named.items() if file and (reason := _find_read_error(file))
    ]
    yield from unread
    known = {problem.key for problem in unread}
    for key in ("ca_file", "certificate_file"):
        file = named[key]
        if file and key not in known and not _holds_certificates(file):
            known.add(key)
            yield PemProblem(key, file, "holds no certificate in PEM form")
    if tls.certificate_file and not known & {"certificate_file", "key_file"}:
        yield from _key_problems(tls, tls.certificate_file)


def tls_context(cluster: Cluster) -> ssl.SSLContext:
    """Build the TLS context of a cluster. PEM files are read now, so the next connection uses a renewed certificate.

    :raises Unreachable: A PEM file is missing or unusable; a file that is being renewed may be complete soon.
    """
    return context_of(cluster.security.tls, cluster.alias, versions=cluster.properties.tls_versions)


def context_of(
    tls: Tls, alias: str, section: str = "security", *, versions: Collection[str] = TLS_VERSIONS
) -> ssl.SSLContext:
    """Build the TLS context for a section of the cluster with this alias; see `tls_context`.

    :raises Unreachable: A PEM file is missing or unusable.
    """
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca_file)
        spoken = sorted(_VERSIONS[name] for name in versions)
        context.minimum_version, context.maximum_version = spoken[0], spoken[-1]
        context.check_hostname = tls.verify_hostname
        if tls.certificate_file is not None:
            context.load_cert_chain(tls.certificate_file, tls.key_file, _Password(tls))
    except OSError as error:
        # Only a closer look shows which file it is; it may have been repaired meanwhile.
        found = [problem.message(alias, section) for problem in pem_problems(tls)]
        raise Unreachable(
            "; ".join(found) or f"the TLS files of {alias} cannot be used: {error}",
            cluster=alias,
            hint=f"{HINT} It is read again for the next connection.",
        ) from error
    return context


def serving_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Build the TLS context of a server, with the certificate chain and key that these files hold now. With `client_ca`
    it asks clients for certificates, and refuses those that are expired or not signed by these authorities.

    :raises ConfigError: The files cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigError(
            f"the certificate and its key cannot be used: {error.strerror or error}",
            hint="--tls-cert and --tls-key name PEM files that belong together; the key is not encrypted.",
        ) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(cafile=client_ca)
        except OSError as error:
            raise ConfigError(
                f"the authorities of clients in {client_ca} cannot be used: {error.strerror or error}",
                hint="--tls-client-ca names a PEM file with the certificates of authorities.",
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class _Password:
    """Returns the password of a key to OpenSSL, which would ask the terminal otherwise."""

    def __init__(self, tls: Tls) -> None:
        self._password = tls.key_password
        self.was_asked = False

    def __call__(self) -> str:
        self.was_asked = True
        return "" if self._password is None else self._password.reveal()


def _find_read_error(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            opened.read(1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _holds_certificates(file: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except OSError:
        return False
    return True


def _key_problems(tls: Tls, certificate_file: str) -> Iterator[PemProblem]:
    """Yield the problem of the key of a valid certificate."""
    password = _Password(tls)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate_file, tls.key_file, password)
    except OSError as error:
        if password.was_asked:
            reason = "is encrypted, and key_password " + (
                "is missing" if tls.key_password is None else "does not open it"
            )
        elif "MISMATCH" in (getattr(error, "reason", None) or ""):
            reason = f"is not the key of the certificate in {certificate_file}"
        else:
            reason = "holds no private key in PEM form"
        key = "certificate_file" if tls.key_file is None else "key_file"
        yield PemProblem(key, tls.key_file or certificate_file, reason)
