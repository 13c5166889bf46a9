"""The route to a cluster: through a proxy, to other addresses than advertised, to its ZooKeeper."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr, model_validator

from isthmus.config.sections.fields import Address, Text, ZooKeeperServers, checked_address
from isthmus.config.sections.section import Section
from isthmus.config.sections.tls import TlsSection
from isthmus.model.cluster import ProxyKind

_PROXY: Final = re.compile(r"(socks5h?|http|relay)://(?:([^@/]*)@)?([^@/]+)/?")
_KINDS: Final[dict[str, ProxyKind]] = {"socks5": "socks5", "socks5h": "socks5", "http": "http", "relay": "relay"}


def proxy_parts(written: str) -> tuple[ProxyKind, str | None, str]:
    """Parse kind, user and host:port of a proxy.

    :raises ValueError: It is none.
    """
    found = _PROXY.fullmatch(written)
    if found is None:
        raise ValueError(
            "must be socks5://host:port or http://host:port, perhaps with a user before it: user@host:port; "
            "or relay://side@host:port"
        )
    if found[2] is not None and ":" in found[2]:
        raise ValueError("holds a password: give it as password beside the url, best by reference")
    return _KINDS[found[1]], found[2] or None, checked_address(found[3])


def _proxy(value: str) -> str:
    proxy_parts(value)
    return value


ProxyUrl = Annotated[str, AfterValidator(_proxy)]
Addresses = dict[Address, Address]


class ProxySection(Section):
    """The proxy of connections to this cluster. If it needs no login, the url alone is short for the section."""

    url: ProxyUrl = Field(
        description=(
            "`socks5://host:port` or `http://host:port` (CONNECT), with `user@` before the host where it asks for a "
            "login; or `relay://side@host:port` for the side of an `isthmus relay`. Brokers' names are looked up by "
            "the "
            "proxy."
        )
    )
    password: SecretStr | None = Field(None, description="The password of that user, or the token of the relay.")
    tls: TlsSection | None = Field(None, description="Certificates, for a relay, which always speaks TLS.")

    @model_validator(mode="before")
    @classmethod
    def _read_url(cls, given: object) -> object:
        return {"url": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check_login(self) -> ProxySection:
        kind, user, _ = proxy_parts(self.url)
        if kind == "relay" and (user is None or self.password is None):
            raise ValueError("lacks the side that has joined, or the token: url relay://side@host:port, and a password")
        if kind != "relay" and self.tls is not None:
            raise ValueError("has tls, which a relay alone speaks")
        if (user is None) != (self.password is None):
            missing = "a user: write user@host:port in url" if user is None else "a password for the user in url"
            raise ValueError(f"lacks {missing}")
        return self


class ZooKeeperSection(Section):
    """The ZooKeeper of a cluster that keeps its registry there. It is only read, by `isthmus cluster registry` and
    `isthmus doctor`, and needs the extra `zookeeper`. Without TLS and login `connect` alone is short for the section.
    """

    connect: ZooKeeperServers = Field(
        description="As in Kafka's zookeeper.connect: host:port,host:port/chroot. With TLS, the secure ports."
    )
    username: Text | None = Field(None, description="The user, for SASL's DIGEST-MD5, as brokers log in.")
    password: SecretStr | None = Field(None, description="The password of that user.")
    tls: TlsSection | None = Field(None, description="Certificates, where the ports speak TLS; `{}` for the defaults.")

    @model_validator(mode="before")
    @classmethod
    def _read_connect(cls, given: object) -> object:
        return {"connect": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check_login(self) -> ZooKeeperSection:
        if (self.username is None) != (self.password is None):
            raise ValueError("lacks a username" if self.username is None else "lacks a password for the username")
        return self
