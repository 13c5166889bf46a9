"""Which leases run a link, by its ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isthmus.ledger.documents.kinds import Document, LeaseDocument, ProgressDocument, TaskDocument
from isthmus.ledger.handover import has_ended
from isthmus.model.process.leases import LeaseProgress

AgeOf = Callable[[Document], float | None]
"""How long ago (s) a document was written, `None` if unknown."""


def leases_of(link: str, documents: Mapping[str, Document], controller: int, age_s: AgeOf) -> tuple[LeaseProgress, ...]:
    """Return the leases of a link that its controller of this generation has not seen the end of, by their slots.

    While a lease is succeeded, the one that was heard last is returned: it may run the partitions still.
    """
    ordered = sorted(LeaseDocument.find_all(documents.values(), link), key=lambda document: document.slot)
    return tuple(
        _lease_of(lease, documents, age_s)
        for lease in ordered
        if lease.controller == controller and (lease.lanes or lease.parting) and not has_ended(lease, documents)
    )


def _lease_of(lease: LeaseDocument, documents: Mapping[str, Document], age_s: AgeOf) -> LeaseProgress:
    partitions = tuple(sorted({*(lane.key for lane in lease.lanes), *lease.parting}))
    task = TaskDocument.find(documents, lease.link, str(lease.slot))
    if task is None or task.controller != lease.controller or task.has_ended:
        return LeaseProgress(slot=lease.slot, generation=lease.generation, partitions=partitions)
    told = ProgressDocument.find(documents, lease.link, str(lease.slot))
    is_known = told is not None and (told.controller, told.generation) == (task.controller, task.generation)
    return LeaseProgress(
        slot=lease.slot,
        generation=task.generation,
        executor=task.executor,
        host=task.process.host,
        pid=task.process.pid,
        busy=None if told is None or not is_known or told.busy < 0 else told.busy,
        records_per_s=None if told is None or not is_known or told.records_per_s < 0 else told.records_per_s,
        age_s=age_s(told if told is not None and is_known else task),
        partitions=partitions,
    )
