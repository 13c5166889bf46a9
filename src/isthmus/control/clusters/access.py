"""Whether the access rules of a link can be carried."""

from __future__ import annotations

from isthmus.cluster.access import describe_rules
from isthmus.cluster.brokers import AllowedOperations
from isthmus.control.clusters.rights import cluster_findings
from isthmus.errors import ClusterError
from isthmus.model.access import AccessPolicy
from isthmus.model.findings import Finding, Level
from isthmus.model.link import Link
from isthmus.model.needs import About, Side
from isthmus.model.rights import Resource
from isthmus.wire.client import Client

_CHECK = "access rules"


async def access_findings(link: Link, source: Client, target: Client, allowed: AllowedOperations) -> list[Finding]:
    """What keeps rules from being carried, or that nothing does; nothing where the link carries none.

    `allowed` is what we may do to the target's cluster itself.
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
    message = f"rules can be carried from {link.source.alias} to {link.target.alias} ({link.access.policy})"
    return [Finding(level=Level.OK, subject=link.name, check=_CHECK, message=message)]
