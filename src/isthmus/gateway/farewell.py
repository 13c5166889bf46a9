"""A gateway whose clients have moved ends at the cluster that it has left, as soon as it is heard there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from isthmus.errors import ClusterError

_log = logging.getLogger(__name__)
_RETRY_S: Final = 1.0


class _Left(Protocol):
    @property
    def alias(self) -> str: ...
    @property
    def leaves_traces(self) -> bool: ...
    async def say_farewell(self) -> None: ...
    async def aclose(self) -> None: ...


class Farewell:
    """A gateway that leaves a cluster. One that is away, as it was lost, is told once it is back: there it would be
    waited for for ever, as it lives elsewhere.
    """

    def __init__(self, left: _Left) -> None:
        self._left = left
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._leave())

    @property
    def leaves_traces(self) -> bool:
        """Whether ledgers have something of it, once it has ended."""
        return self._left.leaves_traces

    async def end(self) -> None:
        """Try no more, and wait until nothing more is said there."""
        self._is_over.set()
        await self._task

    async def _leave(self) -> None:
        try:
            while not await self._has_said_farewell() and not self._is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await self._is_over.wait()
            await self._left.aclose()
        except Exception:  # noqa: BLE001 - clients are served elsewhere
            _log.exception("what was held before %s could not be ended", self._left.alias)

    async def _has_said_farewell(self) -> bool:
        try:
            await self._left.say_farewell()
        except (ClusterError, TimeoutError) as error:
            why = str(error) or "it does not answer in time"
            _log.debug("the ledger of %s does not know yet that this gateway has left it: %s", self._left.alias, why)
            return False
        return True
