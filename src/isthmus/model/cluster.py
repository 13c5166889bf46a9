"""How to reach a Kafka cluster: its name, its bootstrap brokers, and the credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from isthmus.errors import ConfigError
from isthmus.model.naming import NO_NAMES, LogicalNames
from isthmus.model.schemas.gate import NO_GATE, SchemaGate
from isthmus.model.schemas.subjects import SubjectNaming
from isthmus.model.text.patterns import NamePattern
from isthmus.model.text.reference import FileReference

_CLUSTER_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,22}")
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
ProxyKind = Literal["socks5", "http", "relay"]
CLIENT_ID: Final = "isthmus"
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
"""The supported versions of TLS, oldest first, as Kafka and OpenSSL call them."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that never shows itself: `repr` and `str` are masked, `reveal()` returns it."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """The client-credentials grant of OAUTHBEARER (KIP-768)."""

    token_endpoint_url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS settings, as PEM files; `None` means the system's certificate authorities and no client certificate."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: Secret | None = None
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class SecretOrigin:
    """The origin of a text of `Security`, `Proxy` and the like: its parts in order; those in files may change.

    `field` leads to the text by the names of attributes, as in `("oauth", "client_secret")`.
    """

    field: tuple[str, ...]
    parts: tuple[Secret | FileReference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The transport and the login of one cluster. Texts with `origins` may be outdated: files change."""

    protocol: SecurityProtocol = "PLAINTEXT"
    tls: Tls = Tls()
    mechanism: SaslMechanism | None = None
    username: str | None = None
    password: Secret | None = None
    oauth: OAuth | None = None
    origins: tuple[SecretOrigin, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """The proxy that connections to a cluster go through. It receives the names of brokers and looks them up itself.

    A relay (`isthmus relay`) is reached over TLS: `username` is the side that has joined it, `password` its token.
    """

    kind: ProxyKind
    address: str
    username: str | None = None
    password: Secret | None = None
    tls: Tls = Tls()
    origins: tuple[SecretOrigin, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        side = f"{self.username}@" if self.kind == "relay" else ""
        return f"{self.kind}://{side}{self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeper:
    """The ZooKeeper of a cluster with one: `host:port,...`, perhaps with a `/chroot` behind.

    The login is that of SASL's DIGEST-MD5, as Kafka's brokers have it; without `tls` the port has no TLS.
    """

    connect: str
    username: str | None = None
    password: Secret | None = None
    tls: Tls | None = None
    origins: tuple[SecretOrigin, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.connect


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """The schema registry of the cluster `alias`: its address, which may have a path, and a login or a token."""

    alias: str
    url: str
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    tls: Tls = Tls()
    origins: tuple[SecretOrigin, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRoute:
    """The registry from which another one has its schemas, the names of subjects there, and the topics that wait."""

    primary: SchemaRegistry
    target: SchemaRegistry
    naming: SubjectNaming
    interval_s: float
    gate: SchemaGate = NO_GATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """The settings of connections to a cluster. `None` leaves the size of a buffer to the system."""

    connection_setup_timeout_s: float = 5.0
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    tls_versions: frozenset[str] = frozenset(TLS_VERSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Another way to be connected to a cluster: a login for links, perhaps at a listener of their own, or for clients
    of a gateway that have one of these `certificates`.

    `bootstrap_servers` are those of the cluster where they are empty.
    """

    name: str
    bootstrap_servers: tuple[str, ...] = ()
    security: Security
    certificates: tuple[NamePattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One Kafka cluster as configured. The alias is a name for people; the cluster id is the identity.

    `addresses` are pairs: the address that a broker advertises, and the one at which it is reached instead. `client_id`
    is our name in quotas and request logs of the brokers; it does not change which cluster this is. `schemas` names the
    source of the schemas in the cluster's registry, if it is not the primary one, `names` the names that users give
    topics and groups. From `offsets_copy_secret` come the keys of its groups, for links that encrypt a copy of their
    positions. `logins` are those that links and clients of gateways may have, `login` is the one in use. `cluster_id`
    is the id that the cluster has to have, "" while that is unknown: brokers that answer with another id are another
    cluster.
    """

    alias: str
    bootstrap_servers: tuple[str, ...]
    security: Security = Security()
    zookeeper: ZooKeeper | None = None
    addresses: tuple[tuple[str, str], ...] = ()
    proxy: Proxy | None = None
    properties: ClientProperties = ClientProperties()
    client_id: str = field(default=CLIENT_ID, compare=False)
    names: LogicalNames = field(default=NO_NAMES, compare=False)
    schema_registry: SchemaRegistry | None = field(default=None, compare=False)
    schemas: SchemaRoute | None = field(default=None, compare=False)
    offsets_copy_secret: Secret | None = field(default=None, compare=False)
    logins: tuple[Login, ...] = field(default=(), compare=False)
    login: str = ""
    cluster_id: str = field(default="", compare=False)

    @property
    def principal(self) -> str | None:
        """Our principal at its brokers, if the login names it: the brokers name the principals of certificates and
        tokens.
        """
        return None if self.security.username is None else f"User:{self.security.username}"

    def logged_in(self, name: str) -> Cluster:
        """Return the cluster as a link with this login reaches it, "" being the cluster's own.

        :raises ConfigError: It has no such login.
        """
        if not name:
            return self
        login = next((each for each in self.logins if each.name == name), None)
        if login is None:
            raise ConfigError(
                f"clusters.{self.alias}.logins has no {name}",
                field=f"clusters.{self.alias}.logins",
                hint=f"It has: {', '.join(each.name for each in self.logins) or 'none'}. A login is written into the "
                "file of the operator who runs the link; the declaration only names it.",
            )
        servers = login.bootstrap_servers or self.bootstrap_servers
        return replace(self, bootstrap_servers=servers, security=login.security, login=name)


def is_cluster_id(text: str) -> bool:
    """Return whether a text can be a cluster id: at most 22 characters of `[a-zA-Z0-9_-]` (seed 003)."""
    return _CLUSTER_ID.fullmatch(text) is not None
