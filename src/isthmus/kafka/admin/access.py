"""Access rules of topics and groups: DescribeAcls, CreateAcls and DeleteAcls (APIs 29 to 31)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from kafka.protocol.admin.acl import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import every_broker
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource, Right, on_cluster

_TIMEOUT_S: Final = 30.0
_RULES_PER_REQUEST: Final = 200
_TYPES: Final = {Resource.TOPIC: ACLResourceType.TOPIC, Resource.GROUP: ACLResourceType.GROUP}
_PATTERNS: Final = {pattern: ACLResourcePatternType[pattern.value] for pattern in RulePattern}
_PERMISSIONS: Final = {permission: ACLPermissionType[permission.value] for permission in PermissionType}


async def describe_rules(client: Client, resource: Resource, *, node_id: int | None = None) -> frozenset[Rule]:
    """All rules about topics, or all about groups, as known to any broker, or to `node_id`. Needs DESCRIBE on the
    cluster.

    :raises NotAuthorized: The right is missing.
    :raises BrokerRefused: The cluster has no authorizer.
    :raises Unreachable: No broker answered.
    """
    request = DescribeAclsRequest(
        resource_type_filter=_TYPES[resource],
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
    )
    if node_id is None:
        answer = await client.any(request, timeout_s=_TIMEOUT_S)
    else:
        answer = await client.broker(node_id, request)
    if answer.error_code:
        raise _refusal(
            client, answer.error_code, f"listing the access rules of {resource}s", "DESCRIBE", answer.error_message
        )
    return frozenset(rule for found in answer.resources for rule in _rules(resource, found))


async def rules_by_broker(client: Client, resource: Resource) -> dict[int, frozenset[Rule] | ClusterError]:
    """All rules about topics, or all about groups, as each broker knows them, or the error of its answer.

    A change reaches each broker at its own time, and each broker applies the rules it knows.

    :raises Unreachable: No broker answered, or the cluster names none.
    """

    async def ask(node: int) -> frozenset[Rule] | ClusterError:
        try:
            return await describe_rules(client, resource, node_id=node)
        except ClusterError as error:
            return error

    nodes = await every_broker(client)
    return dict(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))


async def has_authorizer(client: Client) -> bool:
    """Whether the cluster has an authorizer, so that rules may hide resources from us. A missing right proves one.

    :raises Unreachable: No broker answered.
    """
    try:
        await describe_rules(client, Resource.TOPIC)
    except BrokerRefused as error:
        return error.code != codes.SECURITY_DISABLED
    except NotAuthorized:
        return True
    return True


async def create_rules(client: Client, rules: Collection[Rule]) -> Outcomes[Rule, None]:
    """Create rules; existing ones stay. Needs ALTER on the cluster.

    :raises Unreachable: No broker answered: what became of the rules is unknown.
    """
    outcomes: list[tuple[Rule, ClusterError | None]] = []
    for some in _chunks(rules):
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=_TYPES[rule.resource],
                    resource_name=rule.name,
                    resource_pattern_type=_PATTERNS[rule.pattern],
                    principal=rule.principal,
                    host=rule.host,
                    operation=ACLOperation[rule.operation],
                    permission_type=_PERMISSIONS[rule.permission],
                )
                for rule in some
            ]
        )
        answer = await client.any(request, timeout_s=_TIMEOUT_S)
        outcomes += _pair_errors(client, some, answer.results, "creating")
    return _outcomes(outcomes)


async def delete_rules(client: Client, rules: Collection[Rule]) -> Outcomes[Rule, None]:
    """Delete exactly these rules; a missing one is no error. Needs ALTER on the cluster.

    :raises Unreachable: No broker answered: what became of the rules is unknown.
    """
    outcomes: list[tuple[Rule, ClusterError | None]] = []
    for some in _chunks(rules):
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsRequest.DeleteAclsFilter(
                    resource_type_filter=_TYPES[rule.resource],
                    resource_name_filter=rule.name,
                    pattern_type_filter=_PATTERNS[rule.pattern],
                    principal_filter=rule.principal,
                    host_filter=rule.host,
                    operation=ACLOperation[rule.operation],
                    permission_type=_PERMISSIONS[rule.permission],
                )
                for rule in some
            ]
        )
        answer = await client.any(request, timeout_s=_TIMEOUT_S)
        outcomes += _pair_errors(client, some, answer.filter_results, "deleting")
    return _outcomes(outcomes)


def _rules(resource: Resource, found: Any) -> Iterator[Rule]:
    for acl in found.acls:
        try:
            yield Rule(
                resource=resource,
                name=found.resource_name,
                pattern=RulePattern(ACLResourcePatternType(found.pattern_type).name),
                principal=acl.principal,
                host=acl.host,
                operation=ACLOperation(acl.operation).name,
                permission=PermissionType(ACLPermissionType(acl.permission_type).name),
            )
        except ValueError:
            # A kind or operation from a later release.
            continue


def _pair_errors(
    client: Client, rules: Sequence[Rule], results: Sequence[Any], doing: str
) -> list[tuple[Rule, ClusterError | None]]:
    """Pair each rule with its error. The answer has the order of the request."""
    return [
        (rule, _error(client, result, f"{doing} the rule {rule.permission} {rule.grant} on {rule.subject}"))
        for rule, result in zip(rules, results, strict=True)
    ]


def _error(client: Client, result: Any, what: str) -> ClusterError | None:
    single = [(result.error_code, result.error_message)]
    single += [(each.error_code, each.error_message) for each in getattr(result, "matching_acls", ())]
    code, message = next((each for each in single if each[0]), (codes.NONE, None))
    return _refusal(client, code, what, "ALTER", message) if code else None


def _refusal(client: Client, code: int, what: str, operation: str, detail: str | None) -> ClusterError:
    alias = client.cluster.alias
    if code == codes.SECURITY_DISABLED:
        return BrokerRefused(
            f"{alias} has no authorizer, so it has no access rules",
            code=code,
            name=codes.name_of(code),
            cluster=alias,
            hint=f"Set authorizer.class.name on the brokers of {alias}, or access.policy: off for the link.",
        )
    right: Right = on_cluster(operation)
    return codes.error_for(code, what, right, cluster=alias, detail=detail)


def _outcomes(judged: Sequence[tuple[Rule, ClusterError | None]]) -> Outcomes[Rule, None]:
    return Outcomes(
        {rule: None for rule, error in judged if error is None},
        {rule: error for rule, error in judged if error is not None},
    )


def _chunks(rules: Collection[Rule]) -> Iterator[Sequence[Rule]]:
    every = list(rules)
    for begin in range(0, len(every), _RULES_PER_REQUEST):
        yield every[begin : begin + _RULES_PER_REQUEST]
