"""Brokers of old versions."""

from __future__ import annotations

from dataclasses import dataclass

from isthmus.model.cluster import Cluster


@dataclass(frozen=True)
class Old:
    """A broker of 2.8 as the tests speak to it."""

    admin_bootstrap_servers: str

    def cluster(self) -> Cluster:
        return Cluster(alias="old", bootstrap_servers=(self.admin_bootstrap_servers,))
