"""Access rules that keep all clients but a link out of a reserved namespace, and how far they are in force. Pure.

Kafka has no reservations. It has rules, of which a DENY overrides every ALLOW: so each principal that may write to the
namespace gets a DENY of its own there. Super users are beyond all rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from isthmus.model.kafka.access import EVERYBODY, EVERYTHING, PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.namespace import Namespace, NamespaceKind

CLOSED: Final[dict[NamespaceKind, tuple[str, ...]]] = {
    "topic": ("WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS"),
    "group": ("READ", "DELETE"),
}
"""Operations that others may not do. Without READ on a group no consumer joins it, and no position is committed
(KIP-986). With ALTER_CONFIGS a client could have a topic emptied. A gateway in front of the follower refuses the same.
"""
READ: Final = "READ"
"""The operation that others may not do either with topics whose link is SYNCING."""
_ALL: Final = "ALL"
_RESOURCES: Final[dict[NamespaceKind, Resource]] = {"topic": Resource.TOPIC, "group": Resource.GROUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The effect of the rules on a namespace. `open` are the rules by which a client may still write, `missing` the
    DENYs against them. Rules for everybody cannot be denied: that would keep the link out as well (`everybody`).
    """

    open: tuple[Rule, ...] = ()
    missing: tuple[Rule, ...] = ()
    everybody: tuple[Rule, ...] = ()


def is_enforceable(namespace: Namespace) -> bool:
    """Return whether rules can be about exactly this namespace."""
    return namespace.kind in _RESOURCES and bool(namespace.prefix)


def is_ruled(namespace: Namespace, rules: Iterable[Rule]) -> bool:
    """Whether a rule is about all of the namespace: then brokers admit only principals that a rule allows."""
    return any(rule.resource is _RESOURCES[namespace.kind] and _is_about_all(rule, namespace) for rule in rules)


def reservation(
    namespace: Namespace,
    rules: Iterable[Rule],
    kept: Collection[str],
    *,
    has_super_user: bool = False,
    operations: Collection[str] | None = None,
) -> Reservation:
    """Return the effect of a cluster's rules on a namespace: against all that is `CLOSED`, or these `operations`. The
    principals `kept` may continue, the link's own among them.

    With `has_super_user` the link is beyond all rules, and so all others can be denied at once.
    """
    found = [rule for rule in rules if rule.resource is _RESOURCES[namespace.kind]]
    closed = CLOSED[namespace.kind] if operations is None else tuple(operations)
    denials = [rule for rule in found if rule.permission is PermissionType.DENY]
    opened: list[Rule] = []
    missing: dict[Rule, None] = {}
    everybody: list[Rule] = []
    for rule in found:
        if rule.permission is not PermissionType.ALLOW or rule.principal in kept or not _reaches(rule, namespace):
            continue
        left = [
            operation
            for operation in (closed if rule.operation == _ALL else (rule.operation,))
            if operation in closed
            and not any(_closes(denial, namespace, rule.principal, operation) for denial in denials)
        ]
        if left:
            opened.append(rule)
            if rule.principal == EVERYBODY and not has_super_user:
                everybody.append(rule)
            else:
                missing.update(dict.fromkeys(_denial(namespace, rule.principal, operation) for operation in left))
    return Reservation(open=tuple(opened), missing=tuple(missing), everybody=tuple(everybody))


def _reaches(rule: Rule, namespace: Namespace) -> bool:
    """Return whether a rule is about some of the namespace."""
    if rule.prefix is None:
        return namespace.holds(rule.name)
    if namespace.is_exact:
        return namespace.prefix.startswith(rule.prefix)
    return namespace.prefix.startswith(rule.prefix) or rule.prefix.startswith(namespace.prefix)


def _closes(denial: Rule, namespace: Namespace, principal: str, operation: str) -> bool:
    """Return whether a DENY keeps a principal out of the whole namespace."""
    return (
        _is_about_all(denial, namespace)
        and denial.principal in (EVERYBODY, principal)
        and denial.host == EVERYTHING
        and denial.operation in (_ALL, operation)
    )


def _is_about_all(rule: Rule, namespace: Namespace) -> bool:
    if rule.prefix is None:
        return namespace.is_exact and rule.name == namespace.prefix
    return namespace.prefix.startswith(rule.prefix)


def _denial(namespace: Namespace, principal: str, operation: str) -> Rule:
    return Rule(
        resource=_RESOURCES[namespace.kind],
        name=namespace.prefix,
        pattern=RulePattern.LITERAL if namespace.is_exact else RulePattern.PREFIXED,
        principal=principal,
        host=EVERYTHING,
        operation=operation,
        permission=PermissionType.DENY,
    )


def rule_values(rules: Iterable[Rule]) -> list[dict[str, str]]:
    """Return rules as a register holds them."""
    return [{name: str(getattr(rule, name)) for name in Rule.__dataclass_fields__} for rule in rules]


def rules_of(values: Iterable[dict[str, str]]) -> tuple[Rule, ...]:
    """Return the rules that `rule_values` wrote."""
    return tuple(
        Rule(
            resource=Resource(each["resource"]),
            name=each["name"],
            pattern=RulePattern(each["pattern"]),
            principal=each["principal"],
            host=each["host"],
            operation=each["operation"],
            permission=PermissionType(each["permission"]),
        )
        for each in values
    )
