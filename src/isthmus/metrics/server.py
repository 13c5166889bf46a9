"""Answers to those who ask how a run does: `/metrics`, `/livez`, `/readyz` and `/health`, over HTTP."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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
from isthmus.model.listening import ListenAddress, is_loopback
from isthmus.model.progress import LinkProgress

Show = Callable[[tuple[LinkProgress, ...]], None]
_log = logging.getLogger(__name__)
_PATIENCE_S: Final = 10.0
"""As long as somebody may take to ask, or to read the answer."""
_ASKING_MAX: Final = 16
"""When one more comes while so many are being answered, the one who has taken longest is left."""
_FRESH_S: Final = 0.4
"""Whoever asks again within this time is told the same: the controller says something new twice a second at most."""
_PLAIN: Final = "text/plain; charset=utf-8"


class Answered(Protocol):
    """An answer about how a process does."""

    @property
    def status(self) -> HTTPStatus: ...
    @property
    def body(self) -> Mapping[str, object]: ...


class StandingAnswers(Protocol):
    """What is answered to whoever asks. Called by any thread."""

    @property
    def paths(self) -> str:
        """What there is, in words."""
        ...

    def metrics(self, accept: str) -> tuple[bytes, str]: ...
    def health(self, path: str) -> Answered | None: ...


@contextlib.contextmanager
def serving(settings: MetricsSettings) -> Iterator[Show | None]:
    """Answer for as long as the block runs; what it gives is to be called with every new progress. `None` where nobody
    is to be answered.

    Raises what `answering` does.
    """
    observer = Observer()
    with answering(settings, MetricsAnswers(observer, has_partitions=settings.partitions)):
        yield None if settings.listen is None else lambda links: _show(observer, links)


@contextlib.contextmanager
def answering(settings: MetricsSettings, answers: StandingAnswers) -> Iterator[None]:
    """Answer for as long as the block runs, if anybody is to be answered.

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
            f"other hosts could reach {address}, and whoever does reads the names of all topics and groups there",
            field="metrics.listen",
            hint="Listen at 127.0.0.1; or if that is meant, say so with --metrics-any-interface or "
            "metrics.any_interface: true.",
        )
    return address


def _listening(address: ListenAddress, answers: StandingAnswers) -> _Server:
    try:
        return _Server(address, answers)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(
                f"cannot tell metrics at {address}: something listens there already",
                hint="End it, or choose another port, for example --metrics 127.0.0.1:9465.",
            ) from None
        raise HostError(
            f"cannot tell metrics at {address}: {error.strerror or error}",
            hint="Listen at an address of this host, for example --metrics 127.0.0.1:9464.",
        ) from None


class Exposition:
    """What a collector tells, in each format, worked out at most twice a second."""

    def __init__(self, collector: Collector, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, bytes]] = {}

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """All metrics, in the newest format that is accepted, and its name."""
        encode, content_type = choose_encoder(accept)
        # One at a time: what is worked out for one will do for those who wait.
        with self._lock:
            made_at, body = self._kept.get(content_type, (-_FRESH_S, b""))
            if self._clock() - made_at >= _FRESH_S or not body:
                body = encode(self._registry)
                self._kept = {content_type: (self._clock(), body)}
            return body, content_type


class MetricsAnswers:
    """What is answered, whoever asks and however: all of it from memory."""

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
        """How the process does, `None` for a path that asks something else."""
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
    # Whoever reads slowly does not hold up the end of the run.
    block_on_close = False

    def __init__(self, address: ListenAddress, answers: StandingAnswers) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.answers = answers
        self._asking: list[socket.socket] = []
        self._is_private = address.is_loopback
        super().__init__((address.host, address.port), _Handler)

    def is_meant(self, host: str | None) -> bool:
        """Whether a question is for us: a page in a browser, whose name leads here, is not to read the answers."""
        if not self._is_private or host is None:
            return True
        with contextlib.suppress(ValueError):
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        self._asking.append(request)
        while len(self._asking) > _ASKING_MAX:
            # Its thread ends of it, and takes it off the list.
            with contextlib.suppress(OSError, IndexError):
                self._asking.pop(0).shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(ValueError):
            self._asking.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has left, or takes too long; nothing else is to be done about it."""
        _log.debug("a question about metrics was not answered", exc_info=True)

    def server_bind(self) -> None:
        # The host's name, which http.server would look up, is of no use here.
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
            self._answer(answer.status, json.dumps(answer.body).encode() + b"\n", "application/json")

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
