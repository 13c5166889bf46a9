"""Find out whether the access rules and the quotas of a link can be carried."""

from __future__ import annotations

from isthmus.access.rights import cluster_findings
from isthmus.errors import ClusterError
from isthmus.kafka.admin.access import describe_rules
from isthmus.kafka.admin.brokers import AllowedOperations, describe_cluster, may_let_everybody_in
from isthmus.kafka.admin.passwords import users_with_passwords
from isthmus.kafka.client import Client
from isthmus.model.kafka.access import AccessPolicy
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.quotas import attached_user
from isthmus.model.kafka.rights import Resource, join_names
from isthmus.model.link import Link
from isthmus.model.links.needs import About, Side, needs_of
from isthmus.model.text.wording import format_count

_CHECK = "access rules"


async def access_findings(link: Link, source: Client, target: Client, allowed: AllowedOperations) -> list[Finding]:
    """Report what keeps rules from being carried, or that nothing does; empty if the link carries none.

    `allowed` are our allowed operations on the target's cluster itself.
    """
    if link.access.policy is AccessPolicy.OFF:
        return []
    found = []
    for client in (source, target):
        try:
            await describe_rules(client, Resource.TOPIC)
        except ClusterError as error:
            found.append(
                Finding(level=Level.ERROR, subject=link.name, check=_CHECK, message=error.message, hint=error.hint)
            )
    found.extend(cluster_findings(link, Side.TARGET, allowed, about=About.ACCESS, check=_CHECK))
    if found:
        return found
    why = "allow.everyone.if.no.acl.found is set, its value is not shown"
    try:
        is_open = await may_let_everybody_in(target)
    except ClusterError as error:
        is_open, why = True, f"whether allow.everyone.if.no.acl.found is set is not known: {error}"
    if is_open:
        message = (
            f"the brokers of {link.target.alias} may allow all clients every operation that no rule is about "
            f"({why}): the first rule about a topic ends that, for the link as well"
        )
        hint = (
            "First make rules that allow the link (isthmus acls generate) and other clients all operations that they "
            "need."
        )
        return [Finding(level=Level.WARN, subject=link.name, check=_CHECK, message=message, hint=hint)]
    message = f"rules can be carried from {link.source.alias} to {link.target.alias} ({link.access.policy})"
    return [Finding(level=Level.OK, subject=link.name, check=_CHECK, message=message)]


async def principal_findings(link: Link, source: Client, target: Client, allowed: AllowedOperations) -> list[Finding]:
    """Report what does not follow of attached principals: quotas for which rights are missing, and passwords that the
    target lacks. Empty if a link has no such principals.

    `allowed` are our allowed operations on the target's cluster itself.

    :raises ClusterError: The source did not answer.
    """
    if not needs_of(link, Side.SOURCE, About.QUOTAS):
        return []
    at_source = (await describe_cluster(source)).operations
    return [
        *cluster_findings(link, Side.SOURCE, at_source, about=About.QUOTAS),
        *cluster_findings(link, Side.TARGET, allowed, about=About.QUOTAS),
        *await _without_password(link, source, target),
    ]


async def _without_password(link: Link, source: Client, target: Client) -> list[Finding]:
    """Find the users that log in by a password at the source, and cannot at the target; none if brokers do not tell."""
    try:
        here, there = [await users_with_passwords(client) for client in (source, target)]
    except ClusterError:
        return []
    names = {attached_user(link.access, user) for user in here}
    missing = sorted(name for name in names if name is not None and name not in there)
    if not missing:
        return []
    return [
        Finding(
            level=Level.WARN,
            subject=link.name,
            check="passwords",
            message=f"{format_count(len(missing), 'attached user')} of {link.source.alias} with a password of SCRAM "
            f"cannot log in at {link.target.alias}: {join_names(missing)}",
            hint="Brokers show no passwords: set them there (kafka-configs --alter --add-config SCRAM-SHA-512=...).",
        )
    ]
