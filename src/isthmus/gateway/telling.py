"""What a gateway reports over HTTP, from the last figures of its processes, and how to ask it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from isthmus.errors import Unreachable
from isthmus.metrics import gateways
from isthmus.metrics.gateways import GatewayAnswer, GatewayCollector
from isthmus.metrics.server import Exposition
from isthmus.model.gateways.figures import GatewayFigures, together
from isthmus.model.process.listening import ListenAddress

_ASKED_S: Final = 10.0
_SHOWN: Final = {"cluster", "clients", "refused"}


class Board:
    """The last figures of the processes of a gateway. Written by one thread, read by any."""

    def __init__(self, cluster: str, processes: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.processes = processes
        self._cluster = cluster
        self._clock = clock
        self._begun_at = clock()
        self._newest: dict[int, tuple[float, GatewayFigures]] = {}
        self._ended = GatewayFigures(cluster=cluster, processes=0)

    def take(self, process: int, figures: GatewayFigures) -> None:
        """Take in the figures of a process."""
        self._newest[process] = self._clock(), figures

    def end(self, process: int) -> None:
        """Note that a process has ended. Its counts are kept."""
        if process in self._newest:
            _, figures = self._newest[process]
            self._ended = together(self._cluster, (self._ended, figures.keep_counters())).keep_counters()
            del self._newest[process]

    @property
    def silences_s(self) -> list[float]:
        """For how long (s) each process has been silent."""
        now = self._clock()
        return [now - at for at, _ in dict(self._newest).values()] or [now - self._begun_at]

    @property
    def figures(self) -> GatewayFigures:
        """The figures of all processes together."""
        return together(self._cluster, [self._ended, *(figures for _, figures in dict(self._newest).values())])


class GatewayAnswers:
    """Answers to requests for metrics, health or clients of a gateway."""

    paths: Final = "Here are /metrics, /livez, /readyz, /health and /clients.\n"

    def __init__(self, board: Board) -> None:
        self._board = board
        self.metrics = Exposition(GatewayCollector(lambda: board.figures)).metrics

    def health(self, path: str) -> GatewayAnswer | None:
        """Answer a request for the health or the clients of the gateway; `None` for another path."""
        board = self._board
        figures = board.figures
        alive = gateways.livez(board.silences_s)
        ready = gateways.readyz(figures, board.silences_s, processes=board.processes)
        match path:
            case "/livez":
                return alive
            case "/readyz":
                return ready
            case "/health":
                return gateways.health(alive, ready, figures)
            case "/clients":
                return GatewayAnswer(HTTPStatus.OK, figures)
        return None


def ask_gateway(address: ListenAddress) -> dict[str, Any]:
    """Ask the gateway whose metrics are at this address for its figures.

    :raises Unreachable: Nothing there answers as a gateway does.
    """
    try:
        with urllib.request.urlopen(f"http://{address}/clients", timeout=_ASKED_S) as answer:
            found = json.load(answer)
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        # The reason that users know: `urllib` wraps it.
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Unreachable(
            f"no gateway serves metrics at {address}: {getattr(why, 'strerror', None) or why}",
            hint="Name the address that the gateway was given by --metrics, and ask on its host if that is 127.0.0.1.",
        ) from None
    if not (isinstance(found, dict) and found.keys() >= _SHOWN):
        raise Unreachable(f"what answers at {address} is no gateway", hint="Name the address of its --metrics.")
    return found
