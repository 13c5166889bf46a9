"""Clients of clusters, one for each, shared by all that is done with them at a time."""

from __future__ import annotations

from typing import Self

from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster


class ClientSession:
    """The owner of clients: one per cluster for all callers while it is open, and so one memory of a cluster's ledger.

        async with ClientSession() as session:
            source, target = session.client(link.source), session.client(link.target)

    Clusters that differ in anything (addresses, login, client id) have clients of their own. Use it in one event loop;
    nobody but the session closes its clients.
    """

    def __init__(self) -> None:
        self._clients: dict[Cluster, Client] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all clients. A later caller gets new ones."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    def client(self, cluster: Cluster) -> Client:
        """The client of the cluster; nothing is sent until it is asked something."""
        found = self._clients.get(cluster)
        if found is None:
            found = self._clients[cluster] = Client(cluster)
        return found
