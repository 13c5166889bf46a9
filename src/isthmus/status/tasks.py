"""The list of all loops. A new loop is one line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from isthmus.access.loop import AccessLoop
from isthmus.access.quotas import QuotasLoop
from isthmus.configs.loop import ConfigsLoop
from isthmus.doctor.semantics import SemanticsLoop
from isthmus.errors import ClusterError
from isthmus.loops.loop import LinkView, Loop
from isthmus.mirrormaker.checkpoints import CheckpointLoop
from isthmus.mirrormaker.heartbeats import HeartbeatLoop
from isthmus.mirrormaker.offset_syncs import OffsetSyncLoop
from isthmus.model.link import Link
from isthmus.model.links.pauses import Pauses
from isthmus.model.loop import (
    DATA_TASK,
    GROUPS_TASK,
    TOPICS_TASK,
    VERIFY_TASK,
    Change,
    LoopProgress,
    LoopState,
)
from isthmus.model.problem import problem_of
from isthmus.model.state import ControllerState
from isthmus.namespaces.reservations import ReservationsLoop
from isthmus.offsetscopy.loop import OffsetsCopyLoop
from isthmus.schemas.loop import SchemasLoop
from isthmus.trees.allowance import AllowanceLoop
from isthmus.trees.handover import HandoverLoop
from isthmus.trees.reconciling import ReconcilingLoop

_LAST_WORD: Final = "No controller runs the link now, so nothing of this is tried again: isthmus run."
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
    link: Link, reported: Collection[LoopProgress], *, controller: ControllerState, paused: Pauses
) -> tuple[LoopProgress, ...]:
    """Return every task of a link, by name: as its controller `reported` it, or as stopped without a live controller.

    If the ledger cannot be read no report counts.
    """
    found = {} if controller is ControllerState.UNKNOWN else {loop.loop: loop for loop in reported}
    wanted = {loop.name: loop.interval_s(link) is not None for loop in (make() for make in LOOPS)}
    wanted |= {DATA_TASK: True, TOPICS_TASK: True, GROUPS_TASK: link.groups.is_configured}
    for name in {*wanted, *found} - {VERIFY_TASK}:
        if not controller.runs or name not in found:
            is_wanted = wanted.get(name, True)
            found[name] = _fill_unreported(found.get(name), name, controller, is_wanted).paused_by(
                is_paused=paused.stops(name)
            )
    found.setdefault(VERIFY_TASK, LoopProgress(loop=VERIFY_TASK, state=LoopState.UNKNOWN))
    return tuple(found[name] for name in sorted(found))


def _fill_unreported(
    known: LoopProgress | None, name: str, controller: ControllerState, is_wanted: bool
) -> LoopProgress:
    """Build the progress of a task without a report, or whose controller is gone: the last error stays."""
    if not is_wanted:
        return LoopProgress(loop=name, state=LoopState.NOT_CONFIGURED)
    is_gone = controller in (ControllerState.NONE, ControllerState.SILENT)
    state = LoopState.STOPPED if is_gone else LoopState.UNKNOWN
    if known is None:
        return LoopProgress(loop=name, state=state)
    # What a controller said of itself it does no more.
    problem = known.problem and replace(known.problem, hint=f"{known.problem.hint} {_LAST_WORD}".lstrip())
    return replace(known, state=state, problem=problem if is_gone else known.problem)


async def foreseen_changes(view: LinkView) -> tuple[Change, ...]:
    """Return the changes that the loops of a link would make now, without making any; errors are changes too."""
    loops = [make() for make in LOOPS]
    return tuple([change for loop in loops for change in await _look(loop, view)])


async def _look(loop: Loop, view: LinkView) -> Sequence[Change]:
    if loop.interval_s(view.link) is None:
        return ()
    try:
        return await loop.look(view)
    except ClusterError as error:
        # The error is reported as a change, so that the plan still shows the topics.
        problem = problem_of(error)
        subject = f"link {view.link.name}"
        return (Change(loop=loop.name, subject=subject, setting=loop.name, before=None, after=None, problem=problem),)
