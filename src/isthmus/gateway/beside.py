"""What a gateway does for synchronous links beside the connections of its clients."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from isthmus.errors import ClusterError

_log = logging.getLogger(__name__)


async def watched(work: Coroutine[Any, Any, None]) -> None:
    """Whatever fails is told, and is tried again by the next look."""
    try:
        await work
    except ClusterError as error:
        _log.warning("%s", error)
    except Exception:  # noqa: BLE001 - what is held stays held
        _log.exception("something of a synchronous link could not be done")
