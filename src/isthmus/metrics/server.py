"""The HTTP server for the health of a run: `/metrics`, `/livez`, `/readyz` and `/health`."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from isthmus.errors import ConfigError, HostError, PortBusy
from isthmus.metrics import health
from isthmus.metrics.collector import LinkCollector
from isthmus.metrics.health import HealthAnswer
from isthmus.metrics.observation import Observer
from isthmus.model.configuration import MetricsSettings
from isthmus.model.links.progress import LinkProgress
from isthmus.model.process.listening import ListenAddress, is_loopback
from isthmus.model.text.plain import plain

Show = Callable[[tuple[LinkProgress, ...]], None]
_log = logging.getLogger(__name__)
_PATIENCE_S: Final = 10.0
"""The time that a client has to ask, or to read the answer."""
_ASKING_MAX: Final = 16
"""If another client comes while this many are being answered, the slowest one is disconnected."""
_FRESH_S: Final = 0.4
"""Within this time a client gets the same answer: the controller reports at most twice a second."""
_PLAIN: Final = "text/plain; charset=utf-8"


class Answered(Protocol):
    """An answer about the health of a process."""

    @property
    def status(self) -> HTTPStatus: ...
    @property
    def body(self) -> object: ...


class StandingAnswers(Protocol):
    """The answers to requests, from memory. Called by any thread."""

    @property
    def paths(self) -> str:
        """The paths, in words."""
        ...

    def metrics(self, accept: str) -> tuple[bytes, str]: ...
    def health(self, path: str) -> Answered | None: ...


@contextlib.contextmanager
def serving(settings: MetricsSettings) -> Iterator[Show | None]:
    """Serve requests for as long as the block runs; the yielded function is to be called with every new progress.
    `None` if no address is configured.

    Raises what `answering` does.
    """
    observer = Observer()
    with answering(settings, MetricsAnswers(observer, has_partitions=settings.partitions)):
        yield None if settings.listen is None else lambda links: _show(observer, links)


@contextlib.contextmanager
def answering(settings: MetricsSettings, answers: StandingAnswers) -> Iterator[None]:
    """Serve requests for as long as the block runs, if an address is configured.

    :raises ConfigError: The address is none, or other hosts could reach it and that was not asked for.
    :raises PortBusy: Something listens there already.
    :raises HostError: One cannot listen there.
    """
    if settings.listen is None:
        yield
        return
    server = _listening(_address_of(settings), answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True)
    thread.start()
    _log.info("metrics at http://%s/metrics", settings.listen)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _show(observer: Observer, links: tuple[LinkProgress, ...]) -> None:
    observer.take(links, time.monotonic())


def _address_of(settings: MetricsSettings) -> ListenAddress:
    try:
        address = ListenAddress.parse(settings.listen or "")
    except ValueError as error:
        raise ConfigError(f"{settings.listen} {error}", field="metrics.listen") from None
    if not address.is_loopback and not settings.any_interface:
        raise ConfigError(
            f"other hosts could reach {address}, and read the names of all topics and groups there",
            field="metrics.listen",
            hint="Listen at 127.0.0.1; or allow it with --metrics-any-interface or metrics.any_interface: true.",
        )
    return address


def _listening(address: ListenAddress, answers: StandingAnswers) -> _Server:
    try:
        return _Server(address, answers)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(
                f"cannot serve metrics at {address}: something listens there already",
                hint="End it, or choose another port, for example --metrics 127.0.0.1:9465.",
            ) from None
        raise HostError(
            f"cannot serve metrics at {address}: {error.strerror or error}",
            hint="Listen at an address of this host, for example --metrics 127.0.0.1:9464.",
        ) from None


class Exposition:
    """The metrics of a collector in each format, computed at most twice a second."""

    def __init__(self, collector: Collector, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, bytes]] = {}

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics, in the newest accepted format, and its name."""
        encode, content_type = choose_encoder(accept)
        # One at a time: the result for one serves those who wait.
        with self._lock:
            made_at, body = self._kept.get(content_type, (-_FRESH_S, b""))
            if self._clock() - made_at >= _FRESH_S or not body:
                body = encode(self._registry)
                self._kept = {content_type: (self._clock(), body)}
            return body, content_type


class MetricsAnswers:
    """The answers to all requests: all of them from memory."""

    paths: Final = "Here are /metrics, /livez, /readyz and /health.\n"

    def __init__(
        self,
        observer: Observer,
        *,
        has_partitions: bool = False,
        runs_none: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._begun_at = clock()
        collector = LinkCollector(
            lambda: observer.newest, has_partitions=has_partitions, runs_none=runs_none, clock=clock
        )
        self.metrics = Exposition(collector, clock).metrics

    def health(self, path: str) -> HealthAnswer | None:
        """Return the health of the process, `None` for another path."""
        seen, now = self._observer.newest, self._clock()
        match path:
            case "/livez":
                return health.livez(seen, now, self._begun_at)
            case "/readyz":
                return health.readyz(seen)
            case "/health":
                return health.health(seen, now, self._begun_at)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    # A slow reader does not delay the end of the run.
    block_on_close = False

    def __init__(self, address: ListenAddress, answers: StandingAnswers) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.answers = answers
        self._asking: list[socket.socket] = []
        self._is_private = address.is_loopback
        super().__init__((address.host, address.port), _Handler)

    def is_meant(self, host: str | None) -> bool:
        """Return whether a request is for us: a page in a browser, whose name leads here, must not read the answers."""
        if not self._is_private or host is None:
            return True
        with contextlib.suppress(ValueError):
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        self._asking.append(request)
        while len(self._asking) > _ASKING_MAX:
            # Its thread ends by that, and removes it from the list.
            with contextlib.suppress(OSError, IndexError):
                self._asking.pop(0).shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(ValueError):
            self._asking.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that the client has left, or takes too long; nothing else is to be done."""
        _log.debug("a question about metrics was not answered", exc_info=True)

    def server_bind(self) -> None:
        # Looking up the host's name, as http.server would, is useless here.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "isthmus", int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_S
    server_version = "isthmus"
    sys_version = ""

    def do_GET(self) -> None:
        if not self.server.is_meant(self.headers.get("Host")):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"Ask for 127.0.0.1.\n", _PLAIN)
            return
        path = self.path.partition("?")[0]
        if path == "/metrics":
            body, content_type = self.server.answers.metrics(self.headers.get("Accept") or "")
            self._answer(HTTPStatus.OK, body, content_type)
            return
        answer = self.server.answers.health(path)
        if answer is None:
            self._answer(HTTPStatus.NOT_FOUND, self.server.answers.paths.encode(), _PLAIN)
        else:
            self._answer(answer.status, json.dumps(plain(answer.body)).encode() + b"\n", "application/json")

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - it is called so in http.server
        _log.debug("%s: %s", self.client_address[0], format % args)
