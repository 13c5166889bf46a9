"""Namespaces that are closed by access rules as they are attached: what follows takes nobody else's writes."""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.control.clusters.enforcement import Keeping, examine_reservation, own_login, require
from isthmus.control.clusters.namespaces import AsyncNamespaces
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.namespace import NamespaceMap
from isthmus.wire.client import Client


async def check_closable(target: Client, maps: Iterable[NamespaceMap], keep: Keeping) -> None:
    """See that rules would close all that is to follow, and leave the link in.

    :raises PlanRefused: They would not.
    """
    keep = keep if keep.said else own_login(target.cluster)
    for each in maps:
        require(await examine_reservation(target, each.target, keep), keep, each.target)


async def close(target: Cluster, maps: Iterable[NamespaceMap], keep: Keeping, ledger: LedgerSettings) -> None:
    """Close all that follows; see `AsyncNamespaces.enforce`.

    :raises PlanRefused: Somebody opened one of them meanwhile.
    :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call goes on.
    """
    namespaces = AsyncNamespaces(target, ledger)
    for each in maps:
        await namespaces.enforce(each.target, keep=keep.principals, super_user=keep.has_super_user)
