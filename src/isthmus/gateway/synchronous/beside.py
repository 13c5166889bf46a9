"""Run tasks of synchronous links beside the connections of clients."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from isthmus.errors import ClusterError

_log = logging.getLogger(__name__)


async def log_failure(work: Coroutine[Any, Any, None]) -> None:
    """Await work and log its errors; the next look tries it again."""
    try:
        await work
    except ClusterError as error:
        _log.warning("%s", error)
    except Exception:  # noqa: BLE001 - held answers stay held
        _log.exception("something of a synchronous link could not be done")
