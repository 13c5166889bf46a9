"""Access rules keep others out of what follows, whatever rights are given later, and readers out of what is SYNCING
(docs/links.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.access.enforcement import examine_reservation, keeping, require
from isthmus.access.readers import examine_reading, remembers_rules
from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.gateways import is_readable, pair_words
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.loops.loop import LinkView
from isthmus.memory.closed import following, read_closed
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.access import Rule
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
    """Creates missing rules of namespaces that follow by this link and are enforced: rules that were deleted, and rules
    against rights that were granted since. At the link's target it creates rules against readers of SYNCING links, and
    deletes them, also those created for another link.
    """

    name = "reservations"

    def __init__(self) -> None:
        self._seen: tuple[object, ...] | None = None

    def is_awaited(self, view: LinkView) -> bool:
        """Whether rules against readers exist, or may be missing, and the reasons for them have changed."""
        return view.link.is_synchronous and self._seen is not None and self._seen != _reading_basis(view)

    def interval_s(self, link: Link) -> float | None:
        """How often rules are looked at, in seconds."""
        return _INTERVAL_S if following(link) else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the rules that are missing, and rules against readers that are to be deleted.

        :raises ClusterError: The target cannot be asked.
        """
        self._seen = _reading_basis(view)
        documents = await read_closed(view.link, view.target)
        found = [change for document in documents for change in await self._find_missing(view, document)]
        if not view.link.is_synchronous and not await remembers_rules(view.target):
            return found
        for each in await examine_reading(view.target, view.link.target):
            found += [_build_change(self.name, each.namespace, rule.grant, rule=rule, against_readers=True)
                      for rule in each.missing]  # fmt: skip
            found += [_build_change(self.name, each.namespace, rule.grant, gone=rule, against_readers=True)
                      for rule in each.over]  # fmt: skip
            if each.problem is not None:
                found.append(
                    _build_change(self.name, each.namespace, "readers", problem=each.problem, against_readers=True)
                )
        return found

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Make the changes.

        :raises ClusterError: The target does not answer.
        """
        left = [change for change in changes if change.problem is not None]
        asked = [change for change in changes if isinstance(change, ReservationChange) and change.problem is None]
        due = {change.namespace: change for change in asked if not change.against_readers}
        # Imported only when needed: a status asks for no more than the names of loops.
        from isthmus.namespaces.namespaces import AsyncNamespaces

        async with ClientSession() as session:
            for namespace, change in due.items():
                try:
                    await AsyncNamespaces(view.link.target, session, LedgerSettings()).renew(namespace)
                except (ClusterError, PlanRefused) as error:
                    if isinstance(error, ClusterError) and error.retryable:
                        raise
                    left.append(_build_change(self.name, namespace, change.setting, problem=problem_of(error)))
            if any(change.against_readers for change in asked):
                await self._settle(view, session)
        return left

    async def _settle(self, view: LinkView, session: ClientSession) -> None:
        from isthmus.access.readers import settle_reading
        from isthmus.memory.declarations import Declarations

        declarations = Declarations([view.link.target], session, LedgerSettings())
        await declarations.look()
        await settle_reading(declarations, view.link.target)

    async def _find_missing(self, view: LinkView, document: NamespaceDocument) -> list[Change]:
        namespace, keep = document.namespace, keeping(view.link.target, document.registers)
        found = await examine_reservation(view.target, namespace, keep)
        try:
            missing = require(found, keep, namespace).missing
        except PlanRefused as error:
            return [_build_change(self.name, namespace, "rules", problem=problem_of(error))]
        return [_build_change(self.name, namespace, rule.grant, rule=rule) for rule in missing]


def _reading_basis(view: LinkView) -> tuple[object, ...]:
    """Return the reasons for rules against readers of a link: whether it is SYNCING, and the logins of its gateways."""
    link, documents = view.link, view.documents.values()
    gateways = pair_words(link.name, link.mode_said, documents).values()
    return (
        link.mode_said,
        is_readable(link.name, link.mode_said, documents),
        *sorted((each.gateway, each.principal) for each in gateways),
    )


def _build_change(
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
