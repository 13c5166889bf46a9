"""How the connections to a cluster go: through a proxy, and to other addresses than brokers advertise."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr, model_validator

from isthmus.config.fields import Address, checked_address
from isthmus.config.section import Section
from isthmus.model.cluster import ProxyKind

_PROXY: Final = re.compile(r"(socks5h?|http)://(?:([^@/]*)@)?([^@/]+)/?")
_KINDS: Final[dict[str, ProxyKind]] = {"socks5": "socks5", "socks5h": "socks5", "http": "http"}


def proxy_parts(written: str) -> tuple[ProxyKind, str | None, str]:
    """Kind, user and host:port of a proxy.

    :raises ValueError: It is none.
    """
    found = _PROXY.fullmatch(written)
    if found is None:
        raise ValueError(
            "must be socks5://host:port or http://host:port, perhaps with a user before it: user@host:port"
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
    """What connections to this cluster go through. Where there is no login the url alone is short for the section."""

    url: ProxyUrl = Field(
        description=(
            "`socks5://host:port` or `http://host:port` (CONNECT), with `user@` before the host where it asks for a "
            "login. Brokers' names are looked up by the proxy."
        )
    )
    password: SecretStr | None = Field(None, description="The password of that user.")

    @model_validator(mode="before")
    @classmethod
    def _read_url(cls, given: object) -> object:
        return {"url": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check_login(self) -> ProxySection:
        user = proxy_parts(self.url)[1]
        if (user is None) != (self.password is None):
            missing = "a user: write user@host:port in url" if user is None else "a password for the user in url"
            raise ValueError(f"lacks {missing}")
        return self
