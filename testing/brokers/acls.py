"""Rights taken from the user `isthmus`, and given back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.local import LocalCluster
from testing.patience import TERM_S

CLUSTER: Final = (ResourceType.BROKER, "kafka-cluster")


def deny(cluster: LocalCluster, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Take rights away."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    for future in admin.create_acls([AclBinding(*each) for each in _rules(kind, name, operations)]).values():
        future.result(TERM_S)
    _await_rules(admin, [AclBindingFilter(*each) for each in _rules(kind, name, operations)], are_there=True)


def permit(cluster: LocalCluster, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Give rights back that were taken away."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    filters = [AclBindingFilter(*each) for each in _rules(kind, name, operations)]
    for future in admin.delete_acls(filters).values():
        assert len(future.result(TERM_S)) == 1
    _await_rules(admin, filters, are_there=False)


def _await_rules(admin: AdminClient, filters: list[AclBindingFilter], *, are_there: bool) -> None:
    """The controller knows of a change at once, the brokers learn of it a moment later."""
    deadline = time.monotonic() + TERM_S
    for wanted in filters:
        while bool(admin.describe_acls(wanted).result(TERM_S)) is not are_there:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def denied(cluster: LocalCluster, kind: ResourceType, name: str, *operations: AclOperation) -> Iterator[None]:
    """Take rights away for a while."""
    deny(cluster, kind, name, *operations)
    try:
        yield
    finally:
        permit(cluster, kind, name, *operations)


def _rules(kind: ResourceType, name: str, operations: tuple[AclOperation, ...]) -> list[tuple[Any, ...]]:
    about = (kind, name, ResourcePatternType.LITERAL, "User:isthmus", "*")
    return [(*about, operation, AclPermissionType.DENY) for operation in operations]
