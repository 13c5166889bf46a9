"""How leases ended, by the ledger: whether requests may still be on their way, how they left the lanes. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.ledger.documents.kinds import Document, LeaseDocument, MilestonesDocument, TaskDocument
from isthmus.model.lane import Lane, LaneMark, Milestone, furthest


def has_ended(lease: LeaseDocument, documents: Mapping[str, Document]) -> bool:
    """Whether no task of the lease will ever write again."""
    task = _task_of(lease, documents)
    return max(lease.ended_through, 0 if task is None else task.ended_through) >= lease.generation


def was_clean(lease: LeaseDocument, documents: Mapping[str, Document]) -> bool:
    """Whether the lease left no request on its way."""
    task = _task_of(lease, documents)
    return lease.is_clean if task is None or task.ended_through <= lease.ended_through else task.is_clean


def is_in_order(link: str, documents: Mapping[str, Document]) -> bool:
    """Whether all leases of a link have ended in good order, so that successors need not check their work."""
    leases = LeaseDocument.find_all(documents.values(), link)
    return all(has_ended(lease, documents) and was_clean(lease, documents) for lease in leases)


def marks_left(link: str, documents: Mapping[str, Document]) -> tuple[LaneMark, ...]:
    """The marks that the last leases of a link left of their lanes, if any."""
    tasks = (_task_of(lease, documents) for lease in LeaseDocument.find_all(documents.values(), link))
    return tuple(mark for task in tasks if task is not None for mark in task.marks)


def milestones_left(link: str, documents: Mapping[str, Document], lanes: Iterable[Lane]) -> tuple[Milestone, ...]:
    """The furthest milestones of these lanes of a link, of any task, however it ended."""
    wanted = {lane.key: lane for lane in lanes}
    milestones = (
        each for document in MilestonesDocument.find_all(documents.values(), link) for each in document.milestones
    )
    return furthest(each for each in milestones if each.key in wanted and each.is_of(wanted[each.key]))


def _task_of(lease: LeaseDocument, documents: Mapping[str, Document]) -> TaskDocument | None:
    task = TaskDocument.find(documents, lease.link, str(lease.slot))
    return task if task is not None and task.controller == lease.controller else None
