"""`clusters.<alias>.properties` and `links[].properties`: the properties of Kafka's clients that Isthmus's own clients
accept.

It is a list of allowed properties, never of forbidden ones: properties of Kafka's clients name classes, files and
addresses, and an author who may set all of them could run code (CVE-2023-25194, CVE-2024-31141, CVE-2025-27817).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator

from isthmus.config.sections.fields import conf_text
from isthmus.model.cluster import TLS_VERSIONS, ClientProperties

EndOfLink = Literal["source", "target"]
_SIDES: Final[tuple[EndOfLink, ...]] = ("source", "target")
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
"""By the name of a property, or its beginning: the keys of a cluster with the same meaning."""


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
"""By the name of a property: the field of `ClientProperties`, its parser, and its allowed values."""
TAKEN_PROPERTIES: Final = tuple(_TAKEN)
_PLAIN: Final = ClientProperties()


def property_problem(name: str, text: str) -> tuple[str, str] | None:
    """Return why a property cannot be used, and the remedy. The value is never repeated: it may be a secret."""
    taken = _TAKEN.get(name)
    if taken is None:
        return _explain_refusal(name)
    try:
        taken[1](text)
    except ValueError:
        return f"must be {taken[2]}", "Write it as Kafka's clients take it."
    return None


def link_property_problem(name: str, text: str) -> tuple[str, str] | None:
    """Return the same for a property of a link, which may have a side before its name: `target.send.buffer.bytes`."""
    problem = property_problem(_bare(name), text)
    return problem and (problem[0], f"{problem[1]} With source. or target. before its name it is for that side only.")


def properties_of(written: Mapping[str, str], beside: ClientProperties = _PLAIN) -> ClientProperties:
    """Return the properties, which have been checked, over the values in `beside`."""
    fields = {_TAKEN[name][0]: _TAKEN[name][1](text) for name, text in written.items()}
    return replace(beside, **fields)


def side_properties(written: Mapping[str, str], side: EndOfLink, beside: ClientProperties) -> ClientProperties:
    """Return the properties of a link at one of its sides, over those of the cluster there; those that name the side
    take precedence.
    """
    both = {name: text for name, text in written.items() if name == _bare(name)}
    own = {name.removeprefix(f"{side}."): text for name, text in written.items() if name.startswith(f"{side}.")}
    return properties_of({**both, **own}, beside)


def written_properties(properties: ClientProperties, beside: ClientProperties = _PLAIN) -> dict[str, str]:
    """Return the properties in written form, those that differ from the values in `beside`."""
    return {
        name: _format_value(getattr(properties, field))
        for name, (field, _, _) in _TAKEN.items()
        if getattr(properties, field) != getattr(beside, field)
    }


def _format_value(value: frozenset[str] | float | None) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    if value is None:
        return "-1"
    return f"{round(value * 1000)}" if isinstance(value, float) else str(value)


def _bare(name: str) -> str:
    for side in _SIDES:
        if name.startswith(f"{side}."):
            return name.removeprefix(f"{side}.")
    return name


def _explain_refusal(name: str) -> tuple[str, str]:
    for beginning, keys in _OWN_KEYS.items():
        if name == beginning or (beginning.endswith(".") and name.startswith(beginning)):
            return "has a key of its own", f"Write {keys} of the cluster instead."
    near = get_close_matches(name, TAKEN_PROPERTIES, n=1, cutoff=0.8)
    meant = f"Did you mean {near[0]}? " if near else ""
    return (
        "is not taken by Isthmus's clients, which are not Kafka's",
        f"{meant}Accepted are {', '.join(TAKEN_PROPERTIES)}; the resources of a link are bounded by its limits.",
    )
