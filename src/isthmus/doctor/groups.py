"""The findings of `doctor` about a link's groups: which can be carried, and which rights are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isthmus.access.rights import group_rights_findings
from isthmus.errors import ClusterError, NotAuthorized
from isthmus.groups.links import look_at
from isthmus.groups.notes import notes_of
from isthmus.groups.plan import GroupPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.transaction import GroupTransaction
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.link import Link
from isthmus.model.links.needs import Side
from isthmus.model.text.wording import format_count

_CHECK: Final = "groups"


async def group_findings(link: Link, session: ClientSession) -> list[Finding]:
    """Return findings about the groups a link carries; none where it carries none."""
    if not link.groups.is_configured:
        return []
    target = session.client(link.target)
    try:
        findings = await _transaction_findings(link, target)
        look = await look_at(link, None, session)
        missing = await group_rights_findings(link, Side.TARGET, target, {plan.target_group for plan in look.plans})
        if look.problem is not None:
            found = {"message": look.problem.message, "hint": look.problem.hint}
            findings.append(Finding(level=Level.WARN, subject=link.name, check=_CHECK, **found))
        return [*findings, *missing, *_about(link, look.plans)]
    except ClusterError as error:
        return [Finding(level=Level.ERROR, subject=link.name, check=_CHECK, message=error.message, hint=error.hint)]


async def _transaction_findings(link: Link, target: Client) -> list[Finding]:
    try:
        await GroupTransaction(target, link.name).probe()
    except NotAuthorized as error:
        (note,) = notes_of(link, "", error.message)
        return [Finding(level=Level.WARN, subject=link.name, check=_CHECK, message=note.message, hint=note.hint)]
    return []


def _about(link: Link, plans: list[GroupPlan]) -> Iterator[Finding]:
    able = 0
    for plan in plans:
        level = _level(link, plan)
        if level is Level.OK or plan.problem is None:
            able += 1
            continue
        message = f"group {plan.group}: {plan.problem.message}"
        yield Finding(level=level, subject=link.name, check=_CHECK, message=message, hint=plan.problem.hint)
    if able:
        message = f"{format_count(able, 'consumer group')} can be carried"
        yield Finding(level=Level.OK, subject=link.name, check=_CHECK, message=message)
    elif not plans:
        message = "no consumer group that the link includes has a position"
        hint = "Check links[].groups.include; isthmus cluster groups shows those of the source."
        yield Finding(level=Level.WARN, subject=link.name, check=_CHECK, message=message, hint=hint)


def _level(link: Link, plan: GroupPlan) -> Level:
    match plan.standing:
        case Standing.NOT_AUTHORIZED | Standing.NAMES_MEET:
            return Level.ERROR
        case Standing.UNAVAILABLE | Standing.UNSUPPORTED | Standing.MIRROR_ENDED | Standing.OFFSETS_DIFFER:
            return Level.WARN
        case Standing.CLOCKS_DIFFER:
            return Level.WARN
        case Standing.NOT_MIRRORED if not any(link.topics.matches(position.topic) for position in plan.positions):
            return Level.WARN
        case _:
            # Topics that are not there yet will be created, and members at the target are no mistake.
            return Level.OK
