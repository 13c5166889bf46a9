"""Client quotas of brokers, set as kafka-configs sets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.protocol.admin import AlterClientQuotasRequest

from isthmus.local import LocalCluster
from isthmus.local.probe import ask


@contextmanager
def bounded(cluster: LocalCluster, client_id: str | None, **limits: float) -> Iterator[None]:
    """Quotas of a client id while the block lasts; None is every client id that has none of its own."""
    _alter(cluster, client_id, limits, remove=False)
    try:
        yield
    finally:
        _alter(cluster, client_id, limits, remove=True)


def _alter(cluster: LocalCluster, client_id: str | None, limits: dict[str, float], *, remove: bool) -> None:
    entry = AlterClientQuotasRequest.EntryData
    changed = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[entry.OpData(key=key, value=value, remove=remove) for key, value in limits.items()],
    )
    port = int(cluster.admin_bootstrap_servers.rpartition(":")[2])
    answer = ask(port, AlterClientQuotasRequest(entries=[changed], validate_only=False), cluster=cluster.name)
    assert [each.error_code for each in answer.entries] == [0]
