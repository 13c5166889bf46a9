"""Requests to one schema registry, through httpx2 (the extra `schemas`), with its failures as our errors.

All requests here are idempotent: schemas come with their ids. So a request that failed on the way is retried.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final, NamedTuple, Self

from isthmus.errors import HostError, RegistryRefused, RegistryUnreachable
from isthmus.kafka.connect.certificates import context_of
from isthmus.kafka.connect.credentials import renewed_registry
from isthmus.model.cluster import SchemaRegistry

ANSWER_S: Final = 20.0
"""How long a registry may be silent."""
WITHIN_S: Final = 60.0
"""How long one answer may take in all: an answer that comes in drops is never silent."""
_PAUSES_S: Final = (0.1, 0.5)
"""The pauses before retries."""
_SENT_AT_ONCE: Final = 8
_BUSY: Final = 429
_FAILED: Final = 500
_GATEWAYS: Final = frozenset({502, 503, 504})
"""The proxy in front of a registry reports that it is not there."""
_BYTES_MAX: Final = 64 << 20
"""No schema and no list of subjects is longer."""
_FORBIDDEN: Final = frozenset({401, 403})
_MEDIA: Final = "application/vnd.schemaregistry.v1+json, application/json"
_log = logging.getLogger(__name__)


class _Answer(NamedTuple):
    """A complete answer."""

    status_code: int
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300


class RegistryClient:
    """The client of one registry; enter it, or close it. `alias` is that of its cluster. Each answer has to be complete
    `within_s`, whatever is tried again.
    """

    def __init__(self, registry: SchemaRegistry, *, within_s: float = WITHIN_S) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise HostError(
                f"asking the schema registry of {registry.alias} needs httpx2, which is not installed",
                hint="Install the extra: pip install 'isthmus[schemas]'.",
            ) from error
        self.alias = registry.alias
        self.url = registry.url
        self._registry = registry
        self._within_s = within_s
        self._failures: tuple[type[Exception], ...] = (httpx2.TransportError, httpx2.DecodingError)
        is_secure = registry.url.startswith("https:")
        verify: Any = context_of(registry.tls, registry.alias, "schema_registry") if is_secure else True
        self._client = httpx2.AsyncClient(verify=verify, timeout=ANSWER_S, headers={"Accept": _MEDIA}, trust_env=False)
        self._room = asyncio.Semaphore(_SENT_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        missing: tuple[int, ...] = (),
        is_text: bool = False,
        **query: str | int,
    ) -> Any:
        """Send a request and return the registry's answer, `None` if it is empty, or has one of the statuses that mean
        `missing`.

        `path` stands behind the registry's address, unless it is an address itself. An answer that `is_text` is not
        read as JSON.

        :raises RegistryUnreachable: It did not answer.
        :raises RegistryRefused: It answered with an error.
        """
        url = path if "://" in path else self.url + path
        try:
            async with asyncio.timeout(self._within_s), self._room:
                answer = await self._answer(method, url, query, json=body, content=content, headers=headers)
        except TimeoutError as error:
            raise self._silence(f"no complete answer within {self._within_s:g} s") from error
        _log.debug("%s of %s: %s %s is %d", "registry", self.alias, method, url, answer.status_code)
        if answer.status_code in missing:
            return None
        if answer.is_success and (is_text or not answer.content):
            return answer.content.decode(errors="replace") or None
        try:
            parsed = json.loads(answer.content)
        except (ValueError, RecursionError):
            parsed = None
        if answer.is_success and parsed is not None:
            return parsed
        raise self._refusal(method, url, answer.status_code, parsed)

    async def _read(self, method: str, url: str, **sent: Any) -> _Answer:
        """Read one answer, as far as it is one of a registry.

        :raises RegistryRefused: It is too long.
        """
        content = bytearray()
        async with self._client.stream(method, url, **sent) as answer:
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > _BYTES_MAX:
                    message = f"the schema registry of {self.alias} answers {method} {url} with more than 64 MiB"
                    hint = (
                        f"See clusters.{self.alias}.schema_registry.url: no schema registry sends such a long answer."
                    )
                    raise RegistryRefused(message, status=answer.status_code, cluster=self.alias, hint=hint)
        return _Answer(answer.status_code, bytes(content))

    async def _answer(self, method: str, url: str, query: dict[str, Any], **sent: Any) -> _Answer:
        """Return the last of several answers, if the first ones were failures."""
        auth, token = self._login()
        sent["headers"] = {**(sent["headers"] or {}), **token}
        for pause_s in (*_PAUSES_S, None):
            try:
                answer = await self._read(method, url, params=query or None, auth=auth, **sent)
            except self._failures as error:
                if pause_s is None:
                    raise self._silence(error) from error
            else:
                if pause_s is None or not (answer.status_code == _BUSY or answer.status_code >= _FAILED):
                    if answer.status_code in _GATEWAYS:
                        raise self._silence(f"HTTP {answer.status_code}")
                    return answer
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _login(self) -> tuple[Any, dict[str, str]]:
        now = renewed_registry(self._registry)
        if now.token is not None:
            return None, {"Authorization": f"Bearer {now.token.reveal()}"}
        return (now.username, now.password.reveal()) if now.username and now.password else None, {}

    def _silence(self, reason: object) -> RegistryUnreachable:
        text = str(reason) or type(reason).__name__
        return RegistryUnreachable(
            f"the schema registry of {self.alias} at {self.url} does not answer: {text}",
            cluster=self.alias,
            hint=f"See that it runs, and that clusters.{self.alias}.schema_registry.url is right.",
        )

    def _refusal(self, method: str, url: str, status: int, parsed: Any) -> RegistryRefused:
        where = f"the schema registry of {self.alias}"
        key = f"clusters.{self.alias}.schema_registry"
        if status in _FORBIDDEN:
            hint = f"See its login ({key}), and the rights of this login there."
            return RegistryRefused(
                f"{where} refuses {method} {url}: HTTP {status}", status=status, cluster=self.alias, hint=hint
            )
        if not isinstance(parsed, dict):
            hint = f"See {key}.url: it has to lead to the API, with its path, as in /apis/ccompat/v7 of Apicurio."
            message = f"{where} answers {method} {url} with HTTP {status}, as no schema registry does"
            return RegistryRefused(message, status=status, cluster=self.alias, hint=hint)
        code = parsed.get("error_code")
        message = parsed.get("message") or parsed.get("detail") or parsed.get("title") or f"HTTP {status}"
        return RegistryRefused(
            f"{where} refuses {method} {url}: {message}" + (f" ({code})" if code else ""),
            status=status,
            code=code if isinstance(code, int) else 0,
            cluster=self.alias,
            hint="The log of the registry may have details.",
        )
