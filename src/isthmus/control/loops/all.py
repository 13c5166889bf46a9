"""The loops there are. A new kind of thing to keep alike is one line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
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
from isthmus.model.loop import (
    DATA_TASK,
    GROUPS_TASK,
    TOPICS_TASK,
    VERIFY_TASK,
    Change,
    LoopProgress,
    LoopState,
)
from isthmus.model.pauses import Pauses
from isthmus.model.problem import problem_of
from isthmus.model.state import ControllerState

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


def tasks_of(
    link: Link, told: Collection[LoopProgress], *, controller: ControllerState, paused: Pauses
) -> tuple[LoopProgress, ...]:
    """Every task of a link, by name: as its controller told it, and without one that is alive as nobody runs it.

    Of a ledger that cannot be read nothing counts as told.
    """
    found = {} if controller is ControllerState.UNKNOWN else {loop.loop: loop for loop in told}
    wanted = {loop.name: loop.interval_s(link) is not None for loop in (make() for make in LOOPS)}
    wanted |= {DATA_TASK: True, TOPICS_TASK: True, GROUPS_TASK: link.groups.is_configured}
    for name in {*wanted, *found} - {VERIFY_TASK}:
        if not controller.runs or name not in found:
            is_wanted = wanted.get(name, True)
            found[name] = _unheard(found.get(name), name, controller, is_wanted).paused_by(is_paused=paused.stops(name))
    found.setdefault(VERIFY_TASK, LoopProgress(loop=VERIFY_TASK, state=LoopState.UNKNOWN))
    return tuple(found[name] for name in sorted(found))


def _unheard(told: LoopProgress | None, name: str, controller: ControllerState, is_wanted: bool) -> LoopProgress:
    """A task that nobody has told of, or somebody who is gone: the last error stays."""
    if not is_wanted:
        return LoopProgress(loop=name, state=LoopState.NOT_CONFIGURED)
    is_gone = controller in (ControllerState.NONE, ControllerState.SILENT)
    state = LoopState.STOPPED if is_gone else LoopState.UNKNOWN
    return LoopProgress(loop=name, state=state) if told is None else replace(told, state=state)


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
