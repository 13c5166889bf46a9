"""Rights taken from the user `isthmus`, and given back."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.cluster.local import LocalCluster
from tests.integration.groups import consumers

_FIELDS: Final = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


def deny(cluster: LocalCluster, kind: ResourceType, name: str, operation: AclOperation) -> AclBindingFilter:
    """Take a right from the user `isthmus`. The filter finds the rule."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    pattern = ResourcePatternType.LITERAL
    rule = AclBinding(kind, name, pattern, "User:isthmus", "*", operation, AclPermissionType.DENY)
    for future in admin.create_acls([rule]).values():
        future.result(consumers.TERM_S)
    wanted = AclBindingFilter(*(getattr(rule, field) for field in _FIELDS))
    while not admin.describe_acls(wanted).result(consumers.TERM_S):
        time.sleep(0.02)
    return wanted


def permit(cluster: LocalCluster, rules: list[AclBindingFilter]) -> None:
    """Delete rules."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    for future in admin.delete_acls(rules).values():
        future.result(consumers.TERM_S)
