"""End a gateway at the cluster that its clients have left, as soon as that can be reached."""

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
    """The farewell of a gateway at a cluster that it leaves. A cluster that is lost gets it once it is back: otherwise
    the gateway, which is alive elsewhere, would be waited for there for ever.
    """

    def __init__(self, left: _Left) -> None:
        self._left = left
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._leave())

    @property
    def leaves_traces(self) -> bool:
        """Whether ledgers keep documents of it after its end."""
        return self._left.leaves_traces

    async def end(self) -> None:
        """Stop trying, and wait until nothing more is written there."""
        self._is_over.set()
        await self._task

    async def _leave(self) -> None:
        try:
            while not await self._try_farewell() and not self._is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await self._is_over.wait()
            await self._left.aclose()
        except Exception:  # noqa: BLE001 - clients are served elsewhere
            _log.exception("held answers from before %s could not be ended", self._left.alias)

    async def _try_farewell(self) -> bool:
        try:
            await self._left.say_farewell()
        except (ClusterError, TimeoutError) as error:
            why = str(error) or "it does not answer in time"
            _log.debug("the ledger of %s does not know yet that this gateway has left it: %s", self._left.alias, why)
            return False
        return True
