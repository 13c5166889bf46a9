"""The requirements of a reversal beside a promotion: no consumers at the source, and the settings of the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from isthmus.deadline import Deadline
from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import describe_groups, list_groups
from isthmus.kafka.session import ClientSession
from isthmus.links.reversal import reversed_settings
from isthmus.memory.filtering import filters_of
from isthmus.memory.links import recollect
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.writability import NamespaceState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.text.wording import first_few
from isthmus.namespaces.namespaces import AsyncNamespaces

_LOOK_S: Final = 0.5


async def settings_back(known: Declaration, maps: Sequence[NamespaceMap], target: Client) -> Mapping[str, Any]:
    """Return the settings of a link in the other direction, with the filters that operators have set while it ran.

    :raises PlanRefused: A filter cannot be expressed in the names of the new source.
    :raises ClusterError: The ledger at the target cannot be read.
    """
    filters = filters_of(known.name, (await recollect(known.name, target)).documents)
    changed = {name.replace("_", ".", 1): list(texts) for name, texts in filters.changed.items()}
    return reversed_settings({**known.settings, **changed}, maps)


async def require_no_members(link: Link, source: Client) -> None:
    """Require that no consumer of a group that a link carries is at work at the source: its position would move on.

    :raises GateNotMet: A consumer is.
    :raises ClusterError: One of its brokers, or a group, does not answer: a consumer may be at work there.
    """
    groups = (await list_groups(source)).all()
    names = {each.group for of_broker in groups.values() for each in of_broker if link.groups.matches(each.group)}
    found = (await describe_groups(source, names)).all()
    at_work = sorted(name for name, group in found.items() if group.members)
    if at_work:
        raise GateNotMet(
            f"consumers are at work at {link.source.alias}: {first_few(at_work)}",
            hint=f"Stop them first; afterwards they go on at {link.target.alias}.",
        )


async def await_reserved(
    source: Cluster,
    session: ClientSession,
    wanted: Collection[Namespace],
    ledger: LedgerSettings,
    *,
    timeout_s: float,
    on_step: Callable[[str], None],
) -> None:
    """Wait until the namespaces of the source that an operator reserved are reserved at all its leaders.

    :raises GateNotMet: Others may write to one, or do.
    :raises ClusterError: The source's ledger cannot be read.
    """
    namespaces = AsyncNamespaces(source, session, ledger)
    deadline = Deadline(timeout_s)
    while True:
        found = [each for each in await namespaces.all() if each.namespace in wanted]
        waiting = [each for each in found if each.state is NamespaceState.RESERVING]
        if not waiting:
            return
        on_step(f"waiting until {waiting[0].namespace} of {source.alias} is reserved at every leader")
        if deadline.has_passed:
            raise GateNotMet(
                f"namespace {waiting[0].namespace} of {source.alias} is RESERVING: {waiting[0].waits_for[0]}",
                hint="Stop its producers, or have access rules keep them out: isthmus namespace update --enforce.",
            )
        await asyncio.sleep(_LOOK_S)
