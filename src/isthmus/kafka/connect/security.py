"""Transport and login: protocols, and SASL by kafka-python's own mechanisms."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse
from typing import Any, ClassVar

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from isthmus.deadline import Deadline
from isthmus.errors import AuthenticationFailed, ConfigError, Unreachable
from isthmus.model.cluster import Cluster, OAuth, Security

_TOKEN_TIMEOUT_S = 10.0
_TOKEN_MARGIN_S = 30.0
_TOKEN_BYTES_MAX = 1 << 20


def uses_tls(security: Security) -> bool:
    return security.protocol in ("SSL", "SASL_SSL")


def uses_sasl(security: Security) -> bool:
    return security.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def sasl_mechanism(cluster: Cluster, host: str) -> Any:
    """Build a new kafka-python mechanism object: `auth_bytes()`, `receive(bytes)`, `is_done()`.

    :raises ConfigError: The mechanism lacks a setting.
    """
    security = cluster.security
    if security.mechanism is None:
        raise ConfigError(
            f"{security.protocol} needs a mechanism",
            field=f"clusters.{cluster.alias}.security.mechanism",
            hint="Set security.mechanism to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        )
    provider = _ClientCredentials(security.oauth, cluster.alias) if security.oauth is not None else None
    if security.mechanism == "OAUTHBEARER" and provider is None:
        field = f"clusters.{cluster.alias}.security.oauth"
        raise ConfigError("OAUTHBEARER needs security.oauth", field=field, hint="Give the token endpoint.")
    return get_sasl_mechanism(security.mechanism)(
        host=host,
        security_protocol=security.protocol,
        sasl_mechanism=security.mechanism,
        sasl_plain_username=security.username or "",
        sasl_plain_password=security.password.reveal() if security.password is not None else "",
        sasl_oauth_token_provider=provider,
    )


def forget_token(security: Security) -> None:
    """Drop the token after brokers refused the login: it may have been withdrawn."""
    if security.oauth is not None:
        _ClientCredentials.tokens.pop(security.oauth, None)


def _read(response: HTTPResponse) -> bytes:
    """Read the answer of a token endpoint, with limits of size and time.

    :raises ValueError: The answer is too long.
    :raises TimeoutError: The answer does not end in time.
    """
    found, deadline = b"", Deadline(_TOKEN_TIMEOUT_S)
    while more := response.read1(_TOKEN_BYTES_MAX):
        found += more
        if len(found) > _TOKEN_BYTES_MAX:
            raise ValueError("too long")
        if deadline.has_passed:
            raise TimeoutError(f"its answer did not come within {_TOKEN_TIMEOUT_S:g} s")
    return found


class _ClientCredentials(AbstractTokenProvider):
    """OAuth 2.0 client credentials (RFC 6749 section 4.4); a token is cached until shortly before it expires."""

    tokens: ClassVar[dict[OAuth, tuple[str, float]]] = {}
    """The token and its end (monotonic s) for each configuration."""

    def __init__(self, oauth: OAuth, cluster: str) -> None:
        super().__init__()
        self._oauth = oauth
        self._cluster = cluster

    def token(self) -> str:
        """Return a token that is valid for a while.

        :raises Unreachable: The endpoint does not answer.
        :raises AuthenticationFailed: The endpoint gives no token.
        """
        kept = self.tokens.get(self._oauth)
        if kept is not None and kept[1] > time.monotonic():
            return kept[0]
        oauth = self._oauth
        address = urllib.parse.urlsplit(oauth.token_endpoint_url)
        if address.scheme not in ("http", "https"):
            raise self._token_error("is no http(s) address")
        form = {"grant_type": "client_credentials", "client_id": oauth.client_id}
        form["client_secret"] = oauth.client_secret.reveal()
        if oauth.scope:
            form["scope"] = oauth.scope
        request = urllib.request.Request(  # noqa: S310  # the scheme was checked above
            oauth.token_endpoint_url, data=urllib.parse.urlencode(form).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as response:  # noqa: S310
                answer = json.loads(_read(response))
            token, life_s = str(answer["access_token"]), float(answer.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            raise self._token_error(f"gave no token: HTTP status {error.code}") from error
        except OSError as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise Unreachable(
                f"the OAuth token endpoint of {self._cluster} at {address.hostname} does not answer: {reason}",
                cluster=self._cluster,
                hint="Check security.oauth.token_endpoint_url, and that it can be reached from here.",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, HTTPException) as error:
            raise self._token_error("gave no token: its answer is not one of OAuth 2.0") from error
        self.tokens[oauth] = (token, time.monotonic() + max(life_s - _TOKEN_MARGIN_S, 1.0))
        return token

    def _token_error(self, what: str) -> AuthenticationFailed:
        host = urllib.parse.urlsplit(self._oauth.token_endpoint_url).hostname
        return AuthenticationFailed(
            f"the OAuth token endpoint of {self._cluster} at {host} {what}",
            cluster=self._cluster,
            hint="Check security.oauth: token_endpoint_url, client_id, client_secret and scope.",
        )
