"""Reads and sets client quotas: DescribeClientQuotas and AlterClientQuotas (APIs 48 and 49, KIP-546)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import every_broker
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.quotas import DEFAULT_CLIENT, ClientQuota, QuotaKey
from isthmus.model.kafka.rights import on_cluster

_TIMEOUT_S: Final = 30.0
_USER: Final = "user"
_CLIENT: Final = "client-id"
_ANY: Final = 2


async def user_quotas(client: Client, *, node_id: int | None = None) -> dict[QuotaKey, float]:
    """All quotas of named users and of their clients, as known to any broker, or to `node_id`; rates in bytes per
    second, times in percent. Needs DESCRIBE_CONFIGS on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: No broker answered.
    """
    component = DescribeClientQuotasRequest.ComponentData(entity_type=_USER, match_type=_ANY, match=None)
    return {
        # Default quotas belong to no named user: leave them out.
        QuotaKey(each.user, DEFAULT_CLIENT if each.client_id == "" else each.client_id, each.limit): each.value
        for each in await _list_quotas(client, component, node_id=node_id)
        if each.user
    }


async def quotas_anywhere(client: Client) -> dict[QuotaKey, float]:
    """All quotas of named users that at least one broker knows: any other one is gone.

    :raises ClusterError: A broker did not answer.
    """
    nodes = await every_broker(client)
    by_broker = await asyncio.gather(*(user_quotas(client, node_id=node) for node in nodes))
    return {key: value for found in by_broker for key, value in found.items()}


async def client_quotas(client: Client) -> list[ClientQuota]:
    """All quotas of users and client ids. Needs DESCRIBE_CONFIGS on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: No broker answered.
    """
    return await _list_quotas(client)


async def _list_quotas(client: Client, *components: Any, node_id: int | None = None) -> list[ClientQuota]:
    request = DescribeClientQuotasRequest(components=list(components), strict=False)
    if node_id is None:
        answer = await client.any(request, timeout_s=_TIMEOUT_S)
    else:
        answer = await client.broker(node_id, request)
    codes.raise_for_code(
        answer.error_code,
        "listing client quotas",
        on_cluster("DESCRIBE_CONFIGS"),
        cluster=client.cluster.alias,
        detail=answer.error_message,
    )
    found = []
    for entry in answer.entries or ():
        names = {part.entity_type: part.entity_name or "" for part in entry.entity}
        if not names.keys() - {_USER, _CLIENT}:
            # Other quotas are by IP address.
            who = names.get(_USER), names.get(_CLIENT)
            found += [ClientQuota(*who, each.key, float(each.value)) for each in entry.values]
    return found


async def alter_quotas(client: Client, wanted: Mapping[QuotaKey, float | None]) -> Outcomes[QuotaKey, None]:
    """Set quotas, and remove those that are None. Needs ALTER_CONFIGS on the cluster.

    :raises Unreachable: No broker answered: it is unknown whether the quotas were changed.
    """
    by_owner: dict[tuple[str, str | None], list[QuotaKey]] = {}
    for key in wanted:
        by_owner.setdefault((key.user, key.client_id), []).append(key)
    request = AlterClientQuotasRequest(
        entries=[_entry(owner, {key.limit: wanted[key] for key in keys}) for owner, keys in by_owner.items()],
        validate_only=False,
    )
    answer = await client.controller(request, timeout_s=_TIMEOUT_S)
    values: dict[QuotaKey, None] = {}
    errors: dict[QuotaKey, ClusterError] = {}
    for entry in answer.entries:
        names = {part.entity_type: part.entity_name for part in entry.entity}
        owner = (names[_USER], (names[_CLIENT] or DEFAULT_CLIENT) if _CLIENT in names else None)
        for key in by_owner[owner]:
            if not entry.error_code:
                values[key] = None
                continue
            errors[key] = codes.error_for(
                entry.error_code,
                f"changing a client quota of {key.subject}",
                on_cluster("ALTER_CONFIGS"),
                cluster=client.cluster.alias,
                detail=entry.error_message,
            )
    return Outcomes(values, errors)


def _entry(owner: tuple[str, str | None], limits: Mapping[str, float | None]) -> Any:
    entry_class: Any = AlterClientQuotasRequest.EntryData
    user, client_id = owner
    entity = [entry_class.EntityData(entity_type=_USER, entity_name=user)]
    if client_id is not None:
        name = None if client_id == DEFAULT_CLIENT else client_id
        entity.append(entry_class.EntityData(entity_type=_CLIENT, entity_name=name))
    ops = [
        entry_class.OpData(key=limit, value=0.0 if value is None else value, remove=value is None)
        for limit, value in limits.items()
    ]
    return entry_class(entity=entity, ops=ops)
