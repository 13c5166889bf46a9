"""`clusters.<alias>.properties`: the few properties of Kafka's clients that Isthmus's own clients take.

It is a list of what is let through, never of what is kept out: properties of Kafka's clients name classes, files and
addresses, and whoever may write them all may have code run (CVE-2023-25194, CVE-2024-31141, CVE-2025-27817).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from isthmus.config.fields import conf_text
from isthmus.model.cluster import TLS_VERSIONS, ClientProperties

PropertyText = Annotated[str, BeforeValidator(conf_text)]
_OWN_KEYS: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "sasl.jaas.config": "security.username and security.password",
    "sasl.mechanism": "security.mechanism",
    "security.protocol": "security.protocol",
    "ssl.endpoint.identification.algorithm": "security.tls.verify_hostname",
    "ssl.key.password": "security.tls.key_password",
    "ssl.keystore.": "security.tls.certificate_file and security.tls.key_file",
    "ssl.truststore.": "security.tls.ca_file",
    "sasl.oauthbearer.": "security.oauth",
}
"""By the name of a property, or how it begins: the keys of a cluster that say the same."""


def _buffer_bytes(text: str) -> int | None:
    """Kafka's -1 leaves the size to the system."""
    number = int(text)
    if number != -1 and not 1024 <= number <= 1 << 30:
        raise ValueError
    return None if number == -1 else number


def _setup_s(text: str) -> float:
    number = int(text)
    if not 100 <= number <= 300_000:
        raise ValueError
    return number / 1000


def _protocols(text: str) -> frozenset[str]:
    named = frozenset(part.strip() for part in text.split(","))
    if not named <= set(TLS_VERSIONS):
        raise ValueError
    return named


_TAKEN: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "socket.connection.setup.timeout.ms": ("connection_setup_timeout_s", _setup_s, "a number from 100 to 300000"),
    "send.buffer.bytes": ("send_buffer_bytes", _buffer_bytes, "a number from 1024 to 1073741824, or -1"),
    "receive.buffer.bytes": ("receive_buffer_bytes", _buffer_bytes, "a number from 1024 to 1073741824, or -1"),
    "ssl.enabled.protocols": ("tls_versions", _protocols, f"a list of {' and '.join(TLS_VERSIONS)}"),
}
"""By the name of a property: the field of `ClientProperties`, how it is read, and what it must be."""
TAKEN_PROPERTIES: Final = tuple(_TAKEN)


def property_problem(name: str, text: str) -> tuple[str, str] | None:
    """Why a property cannot be taken, and what to do. The value is never repeated: it may be a secret."""
    taken = _TAKEN.get(name)
    if taken is None:
        return _refused(name)
    try:
        taken[1](text)
    except ValueError:
        return f"must be {taken[2]}", "Write it as Kafka's clients take it."
    return None


def properties_of(written: Mapping[str, str]) -> ClientProperties:
    """The properties, which have been found sound."""
    fields = {_TAKEN[name][0]: _TAKEN[name][1](text) for name, text in written.items()}
    return ClientProperties(**fields)


def written_properties(properties: ClientProperties) -> dict[str, str]:
    """The properties as they are written, of those that differ from what they are by themselves."""
    plain = ClientProperties()
    found: dict[str, str] = {}
    for name, (field, _, _) in _TAKEN.items():
        value = getattr(properties, field)
        if value == getattr(plain, field):
            continue
        if isinstance(value, frozenset):
            found[name] = ",".join(sorted(value))
        else:
            found[name] = f"{round(value * 1000)}" if isinstance(value, float) else str(value)
    return found


def _refused(name: str) -> tuple[str, str]:
    for beginning, keys in _OWN_KEYS.items():
        if name == beginning or (beginning.endswith(".") and name.startswith(beginning)):
            return "has a key of its own", f"Write {keys} of this cluster instead."
    near = get_close_matches(name, TAKEN_PROPERTIES, n=1, cutoff=0.8)
    meant = f"Did you mean {near[0]}? " if near else ""
    return (
        "is not taken by Isthmus's clients, which are not Kafka's",
        f"{meant}Taken are {', '.join(TAKEN_PROPERTIES)}; what a link may take is bounded by its limits.",
    )
