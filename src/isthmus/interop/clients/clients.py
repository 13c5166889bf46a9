"""Settings of Kafka's clients, as far as they are about connections, and the other known ones."""

from __future__ import annotations

import re
from typing import Final

from isthmus.config.sections.clientproperties import TAKEN_PROPERTIES
from isthmus.interop.deployment import Impact
from isthmus.interop.equivalents import (
    EQUIVALENTS,
    Equivalent,
    Fate,
    equivalent_of,
    mark_changed,
    mark_lost,
    mark_unneeded,
)

CLIENTS: Final = ("consumer", "producer", "admin")
"""The clients of MirrorMaker 2 for a cluster; a setting that is not common to all is taken from the
first that has it.
"""
_CLIENT: Final = re.compile(rf"(?:(?:source|target)\.)?(?:{'|'.join(CLIENTS)})\.(?:override\.)?(.+)")
_PLUGIN: Final = mark_lost(
    "Isthmus runs no classes of Kafka's clients", "Use a mechanism that docs/configuration.md names."
)
_TLS_CHOICE: Final = mark_lost("Isthmus takes TLS 1.2 or newer with the ciphers of this machine's OpenSSL")
_METRICS: Final = "Set metrics.listen, and have that scraped (docs/metrics.md)."
_OWN_CLIENT: Final = mark_unneeded("Isthmus has clients of its own, which need no tuning")

ANSWERED: Final = frozenset(
    {
        "bootstrap.servers",
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
    }
)
"""The settings that `security.py` turns into the section of a cluster, or about which it gives a notice."""
PASSED: Final = frozenset(TAKEN_PROPERTIES)
"""The settings that go into the properties of a cluster unchanged."""

CLIENT_SETTINGS: Final[dict[str, Equivalent]] = {
    "ssl.engine.factory.class": _PLUGIN,
    "ssl.provider": _TLS_CHOICE,
    "ssl.protocol": _TLS_CHOICE,
    "ssl.cipher.suites": _TLS_CHOICE,
    "ssl.keymanager.algorithm": mark_unneeded("it is for Java only"),
    "ssl.trustmanager.algorithm": mark_unneeded("it is for Java only"),
    "ssl.secure.random.implementation": mark_unneeded("it is for Java only"),
    "security.providers": _PLUGIN,
    "sasl.login.class": _PLUGIN,
    "interceptor.classes": mark_lost("Isthmus runs no classes of Kafka's clients, so nothing intercepts records"),
    "metric.reporters": mark_changed("Isthmus reports to no class of Java: it has metrics for Prometheus", _METRICS),
    "client.id": mark_changed(
        "brokers know the connections of a link as isthmus- and its name, for quotas and logs",
        "Give quotas to that name, or another one to the link: links[].client_id.",
    ),
    "client.rack": mark_lost(
        "Isthmus reads from leaders alone, so nothing is read from a replica in its own zone (KIP-392)",
        "Run it in the zone of the target: `isthmus doctor` measures both round trips.",
    ),
    "compression.type": mark_changed("batches keep the codec that they have at the source", off="none"),
    "isolation.level": EQUIVALENTS["consumer.isolation.level"],
    "sasl.": mark_unneeded("it tunes a login in a way that Isthmus has no need of"),
}
"""The equivalents of settings that are not answered, by name or, for a name that ends in a dot, by its beginning."""

_COMMON: Final = frozenset(
    {
        "client.id", "client.rack", "client.dns.lookup", "connections.max.idle.ms", "default.api.timeout.ms",
        "enable.metrics.push", "metadata.max.age.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms", "metric.reporters", "receive.buffer.bytes",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms",
        "retry.backoff.ms", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms", "acks", "batch.size", "buffer.memory", "compression.type",
        "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms",
        "max.in.flight.requests.per.connection", "max.request.size", "fetch.max.bytes", "fetch.max.wait.ms",
        "fetch.min.bytes", "isolation.level", "max.partition.fetch.bytes", "max.poll.records",
        "max.poll.interval.ms", "auto.offset.reset", "heartbeat.interval.ms", "session.timeout.ms",
        "rebalance.timeout.ms",
    }
)  # fmt: skip


def is_client_setting(key: str) -> bool:
    """Return whether a cluster's clients use it: any setting about login and transport."""
    return key in ANSWERED or key in _COMMON or key.startswith(("ssl.", "sasl.", "security."))


def is_known_client_setting(key: str) -> bool:
    """Return whether Kafka has a setting of exactly this name, which is no secret, as far as is known here."""
    return (_of_client(key) or key) in {*_COMMON, *CLIENT_SETTINGS, *EQUIVALENTS}


def client_equivalent(key: str) -> Equivalent | None:
    """Return the equivalent of a cluster's setting without an answer, `None` if Kafka has no such setting."""
    if name := _of_client(key):
        return CLIENT_SETTINGS.get(name, _OWN_CLIENT)
    if key in CLIENT_SETTINGS:
        return CLIENT_SETTINGS[key]
    for family, equivalent in CLIENT_SETTINGS.items():
        if family.endswith(".") and key.startswith(family):
            return equivalent
    if key in _COMMON:
        return _OWN_CLIENT
    found = equivalent_of(key)
    if found is None or (found.fate is Fate.REPORTED and found.impact is Impact.UNNEEDED):
        return found
    return mark_unneeded("MirrorMaker 2 heeds it for flows only, not for a cluster")


def flow_equivalent(key: str) -> Equivalent | None:
    """Return the equivalent of a flow's setting without any other answer, `None` if there is no such setting."""
    return EQUIVALENTS.get(key) or CLIENT_SETTINGS.get(_of_client(key)) or equivalent_of(key)


def _of_client(key: str) -> str:
    """Return the client's setting for a key of a cluster or a flow, "" if it is about no single client."""
    found = _CLIENT.fullmatch(key)
    return "" if found is None else found[1]
