"""The loops there are. A new kind of thing to keep alike is one line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from isthmus.control.loops.checkpoints import CheckpointLoop
from isthmus.control.loops.heartbeats import HeartbeatLoop
from isthmus.control.loops.loop import LinkView, Loop
from isthmus.control.loops.offset_syncs import OffsetSyncLoop
from isthmus.model.loop import Change

LOOPS: Final[tuple[Callable[[], Loop], ...]] = (HeartbeatLoop, CheckpointLoop, OffsetSyncLoop)


async def foreseen_changes(view: LinkView) -> tuple[Change, ...]:
    """What the loops of a link would change now. Nothing is changed.

    :raises ClusterError: A cluster cannot be asked.
    """
    loops = [make() for make in LOOPS]
    return tuple(
        [change for loop in loops if loop.interval_s(view.link) is not None for change in await loop.look(view)]
    )
