"""Client quotas of attached principals are set at the target as the source has them (docs/access.md).

As with access rules, changes are recorded in the ledger before and after they are made, and quotas that others have set
are not touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.admin.quotas import alter_quotas, quotas_anywhere, user_quotas
from isthmus.kafka.codes import is_in_doubt
from isthmus.ledger.documents.quotas import QuotaDocument
from isthmus.ledger.records import Deletion
from isthmus.loops.loop import LinkView
from isthmus.model.kafka.access import AccessPolicy
from isthmus.model.kafka.quotas import MadeQuota, QuotaKey, QuotaStep, quota_steps
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import Problem, problem_of

QUOTAS_LOOP: Final = "quotas"
_AT_ONCE: Final = 200
_OTHERS: Final = Problem(
    "another author has set it at the target: it stays",
    "Take it back there (kafka-configs --alter --delete-config) to have it follow the source.",
)
_OWN: Final = Problem(
    "it would slow the link itself down, which logs in as this user at the target: not set",
    "If it is to be slowed down, set the quota there yourself.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange(Change):
    """A quota to set at the target, or to delete there."""

    step: QuotaStep


class QuotasLoop:
    """Sets the quotas that attached principals have at the source, and deletes only those that it set."""

    name = QUOTAS_LOOP

    def __init__(self) -> None:
        self._forgotten: tuple[QuotaKey, ...] = ()
        self._absent: frozenset[QuotaKey] = frozenset()

    def interval_s(self, link: Link) -> float | None:
        """How often quotas are looked at, in seconds: as often as access rules."""
        wants = link.access.principals and link.access.policy is not AccessPolicy.OFF
        return link.access.interval_s if wants else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the quotas that differ.

        :raises ClusterError: A cluster cannot be asked.
        """
        source, target = await asyncio.gather(user_quotas(view.source), user_quotas(view.target))
        own = view.link.target.principal
        found = quota_steps(view.link.access, source, target, _list_made(view), own=own)
        self._forgotten = found.forgotten
        changes = [_build_change(step) for step in found.steps if step.after is not None]
        if len(changes) == len(found.steps):
            return changes
        # The broker that was asked may be behind, and quotas must not be deleted for that.
        try:
            anywhere = {**await quotas_anywhere(view.source), **source}
        except ClusterError as error:
            left = [_build_change(step) for step in found.steps if step.after is None]
            return [*changes, *(replace(each, problem=problem_of(error)) for each in left)]
        gone = quota_steps(view.link.access, anywhere, target, _list_made(view), own=own).steps
        return [*changes, *(_build_change(step) for step in gone if step.after is None)]

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Make the changes; return those that were rejected.

        :raises ClusterError: The target does not answer.
        """
        absent, self._absent = self._absent, frozenset(self._forgotten)
        # A broker may not have heard of a quota yet: forget a quota only when it was absent in two looks.
        if forgotten := [key for key in self._forgotten if key in absent]:
            await view.remember(*[Deletion(_document(view, key, MadeQuota(value=None)).key) for key in forgotten])
        due = [each for each in changes if isinstance(each, QuotaChange) and each.problem is None]
        left = [each for each in changes if each.has_failed]
        for begin in range(0, len(due), _AT_ONCE):
            left += await self._alter(view, {each.step.key: each for each in due[begin : begin + _AT_ONCE]})
        return left

    async def _alter(self, view: LinkView, changes: dict[QuotaKey, QuotaChange]) -> list[QuotaChange]:
        """Record the changes as uncertain, make them, and record their outcome; return those that were rejected."""
        known = _list_made(view)
        steps = {key: change.step for key, change in changes.items()}
        await view.remember(
            *[
                _document(view, key, MadeQuota(value=step.after, before=step.before, is_certain=False))
                for key, step in steps.items()
            ]
        )
        outcomes = await alter_quotas(view.target, {key: step.after for key, step in steps.items()})
        settled: list[QuotaDocument | Deletion] = []
        for key, step in steps.items():
            if key in outcomes.errors and is_in_doubt(outcomes.errors[key]):
                # It may have been made all the same: it stays uncertain.
                continue
            # A rejected quota is as before, and so is its record.
            after = known.get(key) if key in outcomes.errors else MadeQuota(value=step.after)
            document = _document(view, key, after or MadeQuota(value=None))
            settled.append(Deletion(document.key) if after is None or after.value is None else document)
        await view.remember(*settled)
        return [replace(changes[key], problem=problem_of(error)) for key, error in outcomes.errors.items()]


def _list_made(view: LinkView) -> dict[QuotaKey, MadeQuota]:
    return {each.quota: each.made for each in QuotaDocument.find_all(view.documents.values(), view.link.name)}


def _document(view: LinkView, key: QuotaKey, made: MadeQuota) -> QuotaDocument:
    return QuotaDocument.of(view.link.name, key, made)


def _build_change(step: QuotaStep) -> QuotaChange:
    return QuotaChange(
        loop=QUOTAS_LOOP,
        subject=step.key.subject,
        setting=step.key.limit,
        before=_format_quota(step.before),
        after=_format_quota(step.after),
        problem=_OWN if step.is_own else _OTHERS if step.is_others else None,
        is_by_design=step.is_own or step.is_others,
        step=step,
    )


def _format_quota(value: float | None) -> str | None:
    """Format a quota as Kafka's tools do, without the point of a whole number."""
    return None if value is None else f"{value:.10g}" if value < 1e9 else f"{value:.0f}"
