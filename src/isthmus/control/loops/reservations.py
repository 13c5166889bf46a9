"""Access rules keep others out of what follows, whatever rights are given later (docs/links.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.control.clusters.closed import closed, following
from isthmus.control.clusters.enforcement import examine_reservation, keeping, require
from isthmus.control.loops.loop import LinkView
from isthmus.errors import ClusterError, PlanRefused
from isthmus.ledger.documents import NamespaceDocument
from isthmus.model.access import Rule
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem, problem_of

_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChange(Change):
    """A DENY that is missing."""

    namespace: Namespace


class ReservationsLoop:
    """Makes what is missing of the rules of namespaces that follow by this link and are enforced: those that somebody
    deleted, and those against rights that were given since.
    """

    name = "reservations"

    def interval_s(self, link: Link) -> float | None:
        """How often rules are looked at, in seconds."""
        return _INTERVAL_S if following(link) else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """The rules that are missing.

        :raises ClusterError: The target cannot be asked.
        """
        documents = await closed(view.link, view.target)
        return [change for document in documents for change in await self._missing(view, document)]

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Make them.

        :raises ClusterError: The target does not answer.
        """
        left = [change for change in changes if change.problem is not None]
        due = {
            change.namespace: change
            for change in changes
            if isinstance(change, ReservationChange) and change.problem is None
        }
        # Loaded by runs that need it: whoever asks for a status wants no more of a loop than its name.
        from isthmus.control.clusters.namespaces import AsyncNamespaces

        for namespace, change in due.items():
            try:
                await AsyncNamespaces(view.link.target, LedgerSettings()).renew(namespace)
            except (ClusterError, PlanRefused) as error:
                if isinstance(error, ClusterError) and error.retryable:
                    raise
                left.append(_told(self.name, namespace, change.setting, problem=problem_of(error)))
        return left

    async def _missing(self, view: LinkView, document: NamespaceDocument) -> list[Change]:
        namespace, keep = document.namespace, keeping(view.link.target, document.registers)
        found = await examine_reservation(view.target, namespace, keep)
        try:
            missing = require(found, keep, namespace).missing
        except PlanRefused as error:
            return [_told(self.name, namespace, "rules", problem=problem_of(error))]
        return [_told(self.name, namespace, rule.grant, rule=rule) for rule in missing]


def _told(
    loop: str, namespace: Namespace, setting: str, *, rule: Rule | None = None, problem: Problem | None = None
) -> ReservationChange:
    return ReservationChange(
        loop=loop,
        subject=f"{namespace.kind}s {namespace}",
        setting=setting,
        before=None,
        after=None if rule is None else str(rule.permission),
        problem=problem,
        namespace=namespace,
    )
