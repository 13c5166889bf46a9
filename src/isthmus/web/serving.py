"""The address of the REST API, and its lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

# All verbs of the fabric are loaded before the first request: packages may be replaced while a server runs.
import isthmus.fabric.fabric  # noqa: F401
from isthmus.errors import ConfigError, HostError, PortBusy
from isthmus.model.configuration import Configuration
from isthmus.model.process.listening import ListenAddress
from isthmus.web.access.guard import BODY_S, RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.patience import patient
from isthmus.web.watching import LinksProgress, Watch

_log = logging.getLogger(__name__)
_BACKLOG: Final = 128
_END_S: Final = 2
HANG_S: Final = 40.0
"""Operations at work have 20 s to end: one that has not ended by then hangs."""
_BURST_S: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The address, the certificate, the file of tokens, and how many requests of each caller a second.

    `file` is the file of the configuration, for operations that run in a process of their own. A body of a request has
    to come within `body_s`; a connection on which no request begins, or whose client reads nothing of an answer, is
    ended after twice that.
    """

    listen: str
    tokens: Path
    certificate: Path | None = None
    key: Path | None = None
    requests_per_s: float = 50.0
    body_s: float = BODY_S
    file: Path | None = None


def serve(configuration: Configuration, settings: ServeSettings) -> None:
    """Answer requests until a signal ends it.

    :raises ConfigError: The address is none, or other hosts could reach it without TLS or without tokens.
    :raises PortBusy: Something listens there already.
    """
    server, listening = _prepare(configuration, settings)
    with listening:
        try:
            server.run(sockets=[listening])
        finally:
            server.ends()


@dataclass(frozen=True, slots=True)
class ServedRun:
    """The channel from a run to the server beside it: the state of its links, and its configuration."""

    feed: Callable[[LinksProgress], None]
    take: Callable[[Configuration], None]


@contextlib.contextmanager
def serving_beside(
    configuration: Configuration, settings: ServeSettings, *, is_fed: bool = False, hang_s: float = HANG_S
) -> Iterator[ServedRun]:
    """Answer requests in a thread for as long as the block runs. Through the yielded value a run reports the state of
    its links: then the server itself does not look at them for events and metrics (`is_fed`). The end waits `hang_s`
    for a server that hangs.

    :raises ConfigError: As `serve`.
    :raises PortBusy: As `serve`.
    """
    server, listening = _prepare(configuration, settings, is_fed=is_fed)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="rest", daemon=True)
    thread.start()
    try:
        yield ServedRun(feed=server.watch.feed, take=server.desk.take)
    finally:
        server.should_exit = True
        thread.join(hang_s)
        if thread.is_alive():
            _log.error("the REST API hangs: it is left as it is")
        else:
            listening.close()


class _Server(uvicorn.Server):
    """A server that ends its streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, desk: FabricDesk, watch: Watch) -> None:
        super().__init__(config)
        self.desk, self.watch = desk, watch
        self._left: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order on a signal, or at once if the server hangs."""
        if self._left is None:
            self._left = threading.Timer(HANG_S, os._exit, [128 + sig])
            self._left.daemon = True
            self._left.start()
        super().handle_exit(sig, frame)

    def ends(self) -> None:
        """Record that it has ended in good order."""
        if self._left is not None:
            self._left.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self.watch.close)
        await super().shutdown(sockets)


def _prepare(
    configuration: Configuration, settings: ServeSettings, *, is_fed: bool = False
) -> tuple[_Server, socket.socket]:
    address, tokens = _address(settings.listen), TokenFile(settings.tokens)
    tokens.all()
    _check_reach(address, settings, tokens)
    rate = RateLimit(settings.requests_per_s, max(1, int(settings.requests_per_s * _BURST_S)))
    desk = FabricDesk(configuration, settings.file)
    watch = Watch(desk.links, is_fed=is_fed)
    app = create_app(desk, tokens, rate, watch, is_private=address.is_loopback, body_s=settings.body_s)
    config = uvicorn.Config(
        app,
        http=patient(settings.body_s),
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_END_S,
        h11_max_incomplete_event_size=16 * 1024,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
    try:
        config.load()
    except OSError as error:
        raise ConfigError(
            f"the certificate and its key cannot be used: {error.strerror or error}",
            hint="--tls-cert and --tls-key name PEM files that belong together.",
        ) from None
    listening = _bind(address)
    _log.info("serving at %s://%s/v1", "http" if settings.certificate is None else "https", address)
    return _Server(config, desk, watch), listening


def _address(written: str) -> ListenAddress:
    try:
        return ListenAddress.parse(written)
    except ValueError as error:
        raise ConfigError(f"{written} {error}") from None


def _check_reach(address: ListenAddress, settings: ServeSettings, tokens: TokenFile) -> None:
    has_tls = settings.certificate is not None and settings.key is not None
    if (settings.certificate is None) != (settings.key is None):
        raise ConfigError("a certificate and its key belong together", hint="Give both --tls-cert and --tls-key.")
    if not address.is_loopback and not (has_tls and tokens.all()):
        raise ConfigError(
            f"other hosts could reach {address}",
            hint="Listen at 127.0.0.1, or give --tls-cert and --tls-key, and make tokens (isthmus token create).",
        )


def _bind(address: ListenAddress) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        # From now on a client that connects waits, and is not refused.
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(
                f"cannot serve at {address}: something listens there already", hint="End it, or choose another port."
            ) from None
        raise HostError(
            f"cannot serve at {address}: {error.strerror or error}", hint="Listen at an address of this host."
        ) from None
    return listening
