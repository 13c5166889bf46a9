"""Transport and login: TLS contexts, and SASL by kafka-python's own mechanisms."""

from __future__ import annotations

import json
import ssl
import time
import urllib.parse
import urllib.request
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from isthmus.errors import AuthenticationFailed, ConfigError
from isthmus.model.cluster import OAuth, Security

_TOKEN_TIMEOUT_S = 10.0
_TOKEN_MARGIN_S = 30.0


def uses_tls(security: Security) -> bool:
    return security.protocol in ("SSL", "SASL_SSL")


def uses_sasl(security: Security) -> bool:
    return security.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def tls_context(security: Security) -> ssl.SSLContext:
    """The TLS context of a cluster. PEM files are read now, so a renewed certificate is used by the next connection.

    :raises ConfigError: When a PEM file is missing or unusable.
    """
    tls = security.tls
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = tls.verify_hostname
        if tls.certificate_file is not None:
            password = tls.key_password.reveal() if tls.key_password is not None else None
            context.load_cert_chain(tls.certificate_file, tls.key_file, password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the TLS files cannot be used: {error}",
            field="security.tls",
            hint="Give PEM files: ca_file, and certificate_file with key_file for mutual TLS.",
        ) from error
    return context


def sasl_mechanism(security: Security, host: str) -> Any:
    """A fresh kafka-python mechanism object: `auth_bytes()`, `receive(bytes)`, `is_done()`.

    :raises ConfigError: When the mechanism lacks what it needs.
    """
    if security.mechanism is None:
        raise ConfigError(
            f"{security.protocol} needs a mechanism",
            field="security.mechanism",
            hint="Set security.mechanism to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        )
    provider = _ClientCredentials(security.oauth) if security.oauth is not None else None
    if security.mechanism == "OAUTHBEARER" and provider is None:
        raise ConfigError("OAUTHBEARER needs security.oauth", field="security.oauth", hint="Give the token endpoint.")
    return get_sasl_mechanism(security.mechanism)(
        host=host,
        security_protocol=security.protocol,
        sasl_mechanism=security.mechanism,
        sasl_plain_username=security.username or "",
        sasl_plain_password=security.password.reveal() if security.password is not None else "",
        sasl_oauth_token_provider=provider,
    )


class _ClientCredentials(AbstractTokenProvider):
    """OAuth 2.0 client credentials (RFC 6749 section 4.4), one token kept until shortly before it expires."""

    _tokens: dict[OAuth, tuple[str, float]] = {}  # noqa: RUF012  # shared on purpose: one token per configuration

    def __init__(self, oauth: OAuth) -> None:
        super().__init__()
        self._oauth = oauth

    def token(self) -> str:
        kept = self._tokens.get(self._oauth)
        if kept is not None and kept[1] > time.monotonic():
            return kept[0]
        oauth = self._oauth
        if urllib.parse.urlsplit(oauth.token_endpoint_url).scheme not in ("http", "https"):
            raise AuthenticationFailed(
                "the OAuth token endpoint is no http(s) address", hint="Correct security.oauth.token_endpoint_url."
            )
        form = {"grant_type": "client_credentials", "client_id": oauth.client_id}
        form["client_secret"] = oauth.client_secret.reveal()
        if oauth.scope:
            form["scope"] = oauth.scope
        request = urllib.request.Request(  # noqa: S310  # the scheme was checked above
            oauth.token_endpoint_url, data=urllib.parse.urlencode(form).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as response:  # noqa: S310
                answer = json.load(response)
            token, life_s = str(answer["access_token"]), float(answer.get("expires_in", 300))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationFailed(
                f"the OAuth token endpoint gave no token: {type(error).__name__}",
                hint="Check security.oauth: address, client id, secret and scope.",
            ) from error
        self._tokens[oauth] = (token, time.monotonic() + max(life_s - _TOKEN_MARGIN_S, 1.0))
        return token
