"""The loops there are. A new kind of thing to keep alike is one line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from isthmus.control.loops.access import AccessLoop
from isthmus.control.loops.allowance import AllowanceLoop
from isthmus.control.loops.checkpoints import CheckpointLoop
from isthmus.control.loops.configs import ConfigsLoop
from isthmus.control.loops.handover import HandoverLoop
from isthmus.control.loops.heartbeats import HeartbeatLoop
from isthmus.control.loops.loop import LinkView, Loop
from isthmus.control.loops.offset_syncs import OffsetSyncLoop
from isthmus.control.loops.offsets_copy import OffsetsCopyLoop
from isthmus.control.loops.quotas import QuotasLoop
from isthmus.control.loops.reconciling import ReconcilingLoop
from isthmus.control.loops.reservations import ReservationsLoop
from isthmus.control.loops.schemas import SchemasLoop
from isthmus.control.loops.semantics import SemanticsLoop
from isthmus.errors import ClusterError
from isthmus.model.link import Link
from isthmus.model.loop import GROUPS_TASK, Change, LoopProgress, LoopState
from isthmus.model.problem import problem_of

LOOPS: Final[tuple[Callable[[], Loop], ...]] = (
    ConfigsLoop,
    AccessLoop,
    QuotasLoop,
    HeartbeatLoop,
    CheckpointLoop,
    OffsetSyncLoop,
    OffsetsCopyLoop,
    ReservationsLoop,
    SemanticsLoop,
    SchemasLoop,
    HandoverLoop,
    AllowanceLoop,
    ReconcilingLoop,
)


def with_unwanted(link: Link, told: Collection[LoopProgress]) -> tuple[LoopProgress, ...]:
    """What was told of loops, by name, and those that the link is not to run, which nobody need have told."""
    names = [make().name for make in LOOPS if make().interval_s(link) is None]
    names += [] if link.groups.is_configured else [GROUPS_TASK]
    found = {name: LoopProgress(loop=name, state=LoopState.NOT_CONFIGURED) for name in names}
    found |= {loop.loop: loop for loop in told}
    return tuple(found[name] for name in sorted(found))


async def foreseen_changes(view: LinkView) -> tuple[Change, ...]:
    """What the loops of a link would change now. Nothing is changed; one that cannot look says why."""
    loops = [make() for make in LOOPS]
    return tuple([change for loop in loops for change in await _foreseen(loop, view)])


async def _foreseen(loop: Loop, view: LinkView) -> Sequence[Change]:
    if loop.interval_s(view.link) is None:
        return ()
    try:
        return await loop.look(view)
    except ClusterError as error:
        # The topics of the plan are worth telling all the same.
        problem = problem_of(error)
        subject = f"link {view.link.name}"
        return (Change(loop=loop.name, subject=subject, setting=loop.name, before=None, after=None, problem=problem),)
