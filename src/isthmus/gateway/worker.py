"""A process of several that are one gateway: started by `isthmus.gateway.running`, and ends with it."""

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
from isthmus.gateway.synchrony import standing

_log = logging.getLogger("isthmus.gateway.worker")


class _Told(logging.Handler):
    """Has the log told by the process that started this one."""

    def __init__(self, channel: Connection) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        """Send it, with nothing in it that another process could not read."""
        told = copy.copy(record)
        told.msg, told.args = self.format(record), None
        told.exc_info = told.exc_text = told.stack_info = None
        with contextlib.suppress(OSError):
            self._channel.send(told)


def main() -> int:
    """Serve until told to end, or until whoever started us is gone."""
    # Who started us is told, and tells us: a terminal and a service manager tell all at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    channel = Connection(int(sys.argv[1]))
    job = channel.recv()
    logging.getLogger().addHandler(_Told(channel))
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
        # Whatever is said, or if nobody is there any more: it is the end.
        loop.add_reader(channel.fileno(), over.set)
        telling = asyncio.create_task(_tell(channel, gateway))
        await over.wait()
        loop.remove_reader(channel.fileno())
        await gateway.drain()
        telling.cancel()


async def _tell(channel: Connection, gateway: Gateway) -> None:
    with contextlib.suppress(OSError):
        while True:
            channel.send(gateway.figures())
            await asyncio.sleep(TOLD_S)


if __name__ == "__main__":
    sys.exit(main())
