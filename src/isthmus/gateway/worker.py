"""One process of a gateway of several processes: `isthmus.gateway.running` starts it, and it ends with that one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import signal
import sys
from multiprocessing.connection import Connection

from isthmus.errors import IsthmusError
from isthmus.gateway.running import TOLD_S, Job
from isthmus.gateway.server import Gateway
from isthmus.gateway.standing import standing

_log = logging.getLogger("isthmus.gateway.worker")


class _ForwardingHandler(logging.Handler):
    """Forwards log records to the process that started this one."""

    def __init__(self, channel: Connection) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, without anything that another process could not unpickle."""
        copied = copy.copy(record)
        copied.msg, copied.args = self.format(record), None
        copied.exc_info = copied.exc_text = copied.stack_info = None
        with contextlib.suppress(OSError):
            self._channel.send(copied)


def main() -> int:
    """Serve until the parent process asks this one to end, or is gone."""
    # A terminal and a service manager signal all processes at once: only the parent acts, and then ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    channel = Connection(int(sys.argv[1]))
    job = channel.recv()
    logging.getLogger().addHandler(_ForwardingHandler(channel))
    logging.getLogger("isthmus").setLevel(job.level)
    try:
        asyncio.run(_serve(channel, job))
    except IsthmusError as error:
        _log.error("%s", error)
        return 1
    return 0


async def _serve(channel: Connection, job: Job) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with standing(job.configuration, job.alias, job.settings) as gateway:
        # Any message, or a closed channel, means the end.
        loop.add_reader(channel.fileno(), over.set)
        telling = asyncio.create_task(_send_figures(channel, gateway))
        await over.wait()
        loop.remove_reader(channel.fileno())
        await gateway.drain()
        telling.cancel()


async def _send_figures(channel: Connection, gateway: Gateway) -> None:
    with contextlib.suppress(OSError):
        while True:
            channel.send(gateway.figures())
            await asyncio.sleep(TOLD_S)


if __name__ == "__main__":
    sys.exit(main())
