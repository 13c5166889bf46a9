"""Access rules keep others out of what follows, whatever rights are given later, and readers out of what is SYNCING
(docs/links.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.control.clusters.closed import closed, following
from isthmus.control.clusters.enforcement import examine_reservation, keeping, require
from isthmus.control.clusters.reading import examine_reading, remembers_rules
from isthmus.control.loops.loop import LinkView
from isthmus.errors import ClusterError, PlanRefused
from isthmus.ledger.documents import NamespaceDocument
from isthmus.ledger.gateways import is_readable, pair_words
from isthmus.model.access import Rule
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem, problem_of

_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChange(Change):
    """A DENY that is missing, or one `against_readers` that is missing or over."""

    namespace: Namespace
    against_readers: bool = False


class ReservationsLoop:
    """Makes what is missing of the rules of namespaces that follow by this link and are enforced: those that somebody
    deleted, and those against rights that were given since. At the link's target it makes rules against readers of what
    is SYNCING, and takes them back, whichever link they were made for.
    """

    name = "reservations"

    def __init__(self) -> None:
        self._seen: tuple[object, ...] | None = None

    def is_awaited(self, view: LinkView) -> bool:
        """Whether rules against readers are there, or may be missing, and what they go by is another than it was."""
        return view.link.is_synchronous and self._seen is not None and self._seen != _reading_by(view)

    def interval_s(self, link: Link) -> float | None:
        """How often rules are looked at, in seconds."""
        return _INTERVAL_S if following(link) else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """The rules that are missing, and those against readers that are over.

        :raises ClusterError: The target cannot be asked.
        """
        self._seen = _reading_by(view)
        documents = await closed(view.link, view.target)
        found = [change for document in documents for change in await self._missing(view, document)]
        if not view.link.is_synchronous and not await remembers_rules(view.target):
            return found
        for each in await examine_reading(view.target, view.link.target):
            found += [_told(self.name, each.namespace, rule.grant, rule=rule, against_readers=True)
                      for rule in each.missing]  # fmt: skip
            found += [_told(self.name, each.namespace, rule.grant, gone=rule, against_readers=True)
                      for rule in each.over]  # fmt: skip
            if each.problem is not None:
                found.append(_told(self.name, each.namespace, "readers", problem=each.problem, against_readers=True))
        return found

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Make them.

        :raises ClusterError: The target does not answer.
        """
        left = [change for change in changes if change.problem is not None]
        asked = [change for change in changes if isinstance(change, ReservationChange) and change.problem is None]
        due = {change.namespace: change for change in asked if not change.against_readers}
        # Loaded by runs that need it: whoever asks for a status wants no more of a loop than its name.
        from isthmus.control.clusters.namespaces import AsyncNamespaces

        for namespace, change in due.items():
            try:
                await AsyncNamespaces(view.link.target, LedgerSettings()).renew(namespace)
            except (ClusterError, PlanRefused) as error:
                if isinstance(error, ClusterError) and error.retryable:
                    raise
                left.append(_told(self.name, namespace, change.setting, problem=problem_of(error)))
        if any(change.against_readers for change in asked):
            await self._settle(view)
        return left

    async def _settle(self, view: LinkView) -> None:
        from isthmus.control.clusters.reading import settle_reading
        from isthmus.control.links.declarations import Declarations

        async with Declarations([view.link.target], LedgerSettings()) as declarations:
            await declarations.look()
            await settle_reading(declarations, view.link.target)

    async def _missing(self, view: LinkView, document: NamespaceDocument) -> list[Change]:
        namespace, keep = document.namespace, keeping(view.link.target, document.registers)
        found = await examine_reservation(view.target, namespace, keep)
        try:
            missing = require(found, keep, namespace).missing
        except PlanRefused as error:
            return [_told(self.name, namespace, "rules", problem=problem_of(error))]
        return [_told(self.name, namespace, rule.grant, rule=rule) for rule in missing]


def _reading_by(view: LinkView) -> tuple[object, ...]:
    """What rules against readers of a link go by: whether it is SYNCING, and who its gateways are."""
    link, documents = view.link, view.documents.values()
    gateways = pair_words(link.name, link.mode_said, documents).values()
    return (
        link.mode_said,
        is_readable(link.name, link.mode_said, documents),
        *sorted((each.gateway, each.principal) for each in gateways),
    )


def _told(
    loop: str,
    namespace: Namespace,
    setting: str,
    *,
    rule: Rule | None = None,
    gone: Rule | None = None,
    problem: Problem | None = None,
    against_readers: bool = False,
) -> ReservationChange:
    return ReservationChange(
        loop=loop,
        subject=f"{namespace.kind}s {namespace}",
        setting=setting,
        before=None if gone is None else str(gone.permission),
        after=None if rule is None else str(rule.permission),
        problem=problem,
        namespace=namespace,
        against_readers=against_readers,
    )
