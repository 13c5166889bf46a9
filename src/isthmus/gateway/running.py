"""Run a gateway until a signal ends it, in one process or several.

Several processes listen at the same ports (SO_REUSEPORT), and the kernel gives each connection to one of them. They
share nothing. The parent process starts them, reports the sum of their figures, and restarts one that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Final

from isthmus.gateway.server import Gateway, GatewaySettings, settle_ports
from isthmus.gateway.standing import require_ledger, standing
from isthmus.gateway.telling import Board, GatewayAnswers
from isthmus.metrics.server import answering
from isthmus.model.configuration import Configuration, MetricsSettings
from isthmus.model.gateways.figures import GatewayFigures

TOLD_S: Final = 1.0
"""How often (s) a process reports its figures."""
_AGAIN_S, _AGAIN_MAX_S = 0.5, 30.0
_WELL_S: Final = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of one process of several. The parent logs its records, from this level on."""

    configuration: Configuration
    alias: str
    settings: GatewaySettings
    level: int


async def serve(
    configuration: Configuration, alias: str, settings: GatewaySettings, metrics: MetricsSettings, *, processes: int = 1
) -> int:
    """Serve the cluster with this alias until a signal ends it in good order; a second signal ends it at once. Return
    the number of the first signal. Each of several processes holds acknowledgements for synchronous links. Clients may
    move to the clusters of the configuration.

    Raises what `standing` and `answering` do.
    """
    board = Board(alias, processes)
    with answering(metrics, GatewayAnswers(board)):
        # Before it is in any ledger: controllers must not wait for a gateway that cannot listen.
        shared = await settle_ports(configuration.cluster(alias), settings)
        if processes > 1:
            return await _serve_by_others(configuration, alias, shared, board)
        async with standing(configuration, alias, settings) as gateway, _signals() as arrived:
            telling = asyncio.create_task(_report_figures(gateway, board))
            # Before this there are no connections to drain.
            found = await arrived.get()
            _log.info("ending, within %g s", settings.bounds.drain_s)
            await _wait_for_first(gateway.drain(), arrived.get())
            telling.cancel()
        return found


@contextlib.asynccontextmanager
async def _signals() -> AsyncIterator[asyncio.Queue[int]]:
    loop, arrived, both = asyncio.get_running_loop(), asyncio.Queue[int](), (signal.SIGINT, signal.SIGTERM)
    for number in both:
        loop.add_signal_handler(number, arrived.put_nowait, int(number))
    try:
        yield arrived
    finally:
        for number in both:
            loop.remove_signal_handler(number)


async def _report_figures(gateway: Gateway, board: Board) -> None:
    while True:
        board.take(0, gateway.figures())
        await asyncio.sleep(TOLD_S)


async def _wait_for_first(*waited: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in waited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _serve_by_others(configuration: Configuration, alias: str, settings: GatewaySettings, board: Board) -> int:
    settings = _share_bounds(settings, board.processes)
    # Otherwise each process would end at once and be started again.
    await require_ledger(configuration, alias, settings)
    # Processes need no more than this: the links are declared on the clusters.
    needed = Configuration(clusters=configuration.clusters, links=(), ledger=configuration.ledger)
    level = logging.getLogger("isthmus").getEffectiveLevel()
    job = Job(configuration=needed, alias=alias, settings=settings, level=level)
    others = [_Other(index, job, board) for index in range(board.processes)]
    async with _signals() as arrived:
        keeping = [asyncio.create_task(each.keep()) for each in others]
        try:
            found = await arrived.get()
            _log.info("ending, within %g s", settings.bounds.drain_s)
            for each in others:
                each.finish()
            await _wait_for_first(asyncio.gather(*keeping), arrived.get())
        finally:
            for each in others:
                each.kill()
            await asyncio.gather(*keeping, return_exceptions=True)
    return found


def _share_bounds(settings: GatewaySettings, processes: int) -> GatewaySettings:
    """Return the settings of each of several processes: its share of the bounds for all together."""
    bounds = settings.bounds
    return replace(
        settings,
        processes=processes,
        bounds=replace(
            bounds,
            connections=math.ceil(bounds.connections / processes),
            connections_per_address=math.ceil(bounds.connections_per_address / processes),
            gathered_bytes=bounds.gathered_bytes // processes,
        ),
    )


class _Other:
    """A process that serves, and is started again when it ends."""

    def __init__(self, index: int, job: Job, board: Board) -> None:
        self._index = index
        self._job = job
        self._board = board
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Connection | None = None
        self._ends = asyncio.Event()

    async def keep(self) -> None:
        """Keep the process running, until it is to end."""
        loop, again_s = asyncio.get_running_loop(), _AGAIN_S
        while True:
            since = loop.time()
            code = await self._run()
            self._board.end(self._index)
            if self._ends.is_set():
                return
            again_s = _AGAIN_S if loop.time() - since > _WELL_S else min(again_s * 2, _AGAIN_MAX_S)
            _log.error("process %d has ended (%d); it is started again in %g s", self._index, code, again_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again_s):
                    await self._ends.wait()
                    return

    def finish(self) -> None:
        """End the process in good order, and do not start it again."""
        self._ends.set()
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(None)

    def kill(self) -> None:
        """Kill the process, and do not start it again."""
        self._ends.set()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        with far:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "isthmus.gateway.worker", str(far.fileno())),
                pass_fds=(far.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                # Ctrl-C is for the parent process.
                start_new_session=True,
            )
        channel = self._channel = Connection(near.detach())
        try:
            with contextlib.suppress(OSError):
                channel.send(self._job)
                loop.add_reader(channel.fileno(), self._hear, channel)
            if self._ends.is_set():
                self.finish()
            return await process.wait()
        finally:
            loop.remove_reader(channel.fileno())
            while self._hear(channel):
                pass
            self._channel = None
            channel.close()

    def _hear(self, channel: Connection) -> bool:
        """Receive one message of the process; whether there was one."""
        try:
            if not channel.poll():
                return False
            message = channel.recv()
        except (OSError, EOFError):
            asyncio.get_running_loop().remove_reader(channel.fileno())
            return False
        if isinstance(message, GatewayFigures):
            self._board.take(self._index, message)
        elif isinstance(message, logging.LogRecord):
            message.msg = f"process {self._index}: {message.msg}"
            logging.getLogger(message.name).handle(message)
        return True
