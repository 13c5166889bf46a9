"""Access rules."""

from __future__ import annotations

from typing import Any

from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource


def allow(name: str, operation: str = "WRITE", principal: str = "User:alice", **fields: Any) -> Rule:
    given: dict[str, Any] = {
        "resource": Resource.TOPIC,
        "name": name,
        "pattern": RulePattern.PREFIXED,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission": PermissionType.ALLOW,
    }
    return Rule(**given | fields)
