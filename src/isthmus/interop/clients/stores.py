"""Key stores and trust stores of Java as PEM: PKCS12 by cryptography, JKS by the keytool that comes with Java.

keytool, not a library: Java is needed anyway, and Python's reader of JKS has not been maintained for years.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = b"\x30"
_KEYTOOL_S: Final = 60.0
_PROMPTS_MAX: Final = 100
"""keytool asks for the password of a key on stdin: once for each of them, and for the store's if none is given."""


class StoreUnreadable(Exception):
    """A store that cannot be opened; the text continues "which"."""


@dataclass(frozen=True, slots=True)
class PemStore:
    """The content of a store, in PEM form. `repr` keeps the key."""

    certificates: str = ""
    chain: str = ""
    key: str = field(default="", repr=False)


def is_pem(data: bytes) -> bool:
    """Return whether it is PEM already."""
    return data.lstrip().startswith(_PEM) or b"\n-----BEGIN " in data


def opened_store(data: bytes, password: str | None, key_password: str | None = None) -> PemStore:
    """Open a PKCS12 or JKS store. The first bytes decide the format, as in Java.

    :raises StoreUnreadable: It is neither, the password is wrong, or there is no keytool for JKS.
    """
    if data.startswith(_JKS):
        passphrase = secrets.token_hex(16)
        return _contents(_load(_from_jks(data, password, key_password, passphrase), passphrase))
    if data.startswith(_DER_SEQUENCE):
        return _contents(_load(data, password))
    raise StoreUnreadable("is no store of a kind that can be read: neither PEM nor PKCS12 nor JKS")


def _load(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm):
        # The cause is left out: it may repeat its input.
        reason = (
            "has another password, or is damaged" if password is not None else "cannot be opened without a password"
        )
        raise StoreUnreadable(reason) from None


def _contents(store: PKCS12KeyAndCertificates) -> PemStore:
    others = [each.certificate for each in store.additional_certs]
    own = None if store.cert is None else store.cert.certificate
    everything = others if own is None else [own, *others]
    key = ""
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return PemStore(certificates=_pem(everything), chain="" if own is None else _pem(_chain(own, others)), key=key)


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the certificate and its issuers: a store may contain others as well."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _pem(certificates: list[x509.Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _from_jks(data: bytes, password: str | None, key_password: str | None, passphrase: str) -> bytes:
    """Convert the store to PKCS12 under another password. Passwords go by the environment and stdin, hidden from other
    users.
    """
    with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:
        source, target = Path(folder, "store.jks"), Path(folder, "store.p12")
        source.write_bytes(data)
        # Without English its message could not be recognized.
        command = [_keytool(), "-J-Duser.language=en", "-importkeystore", "-noprompt"]
        command += ["-srckeystore", str(source), "-srcstoretype", "JCEKS" if data.startswith(_JKS[1]) else "JKS"]
        command += ["-destkeystore", str(target), "-deststoretype", "PKCS12", "-deststorepass:env", "ISTHMUS_TARGET"]
        environment = {**os.environ, "ISTHMUS_TARGET": passphrase}
        if password is not None:
            command += ["-srcstorepass:env", "ISTHMUS_SOURCE"]
            environment["ISTHMUS_SOURCE"] = password
        answers = "".join(f"{key_password or ''}\n" for _ in range(_PROMPTS_MAX))
        try:
            done = subprocess.run(
                command, env=environment, input=answers, capture_output=True, text=True, timeout=_KEYTOOL_S, check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            raise StoreUnreadable("keytool could not read") from None
        if done.returncode == 0 and target.exists():
            return target.read_bytes()
        if "Too many failures" in done.stdout + done.stderr:
            raise StoreUnreadable("holds a key with a password of its own, which ssl.key.password does not open")
        raise StoreUnreadable("has another password, or is damaged")


def _keytool() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("keytool", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("keytool")
    if found is None:
        raise StoreUnreadable("takes keytool to be read, which comes with Java and is not on the PATH")
    return found
