"""Survey a cluster for the first time."""

from __future__ import annotations

from isthmus.cluster.groups import list_groups, listed
from isthmus.model.naming import RESERVED_PREFIX
from isthmus.model.survey import ClusterSurvey
from isthmus.wire.client import Client


async def survey(client: Client) -> ClusterSurvey:
    """List the topics and groups of a cluster, and count its brokers.

    :raises ClusterError: It does not answer, or rejects our login.
    """
    metadata = await client.metadata(None)
    groups = listed(await list_groups(client))
    return ClusterSurvey(
        cluster_id=metadata.cluster_id or "",
        brokers=len(metadata.brokers),
        topics=tuple(sorted(name for name in metadata.topics if not name.startswith(RESERVED_PREFIX))),
        groups=tuple(sorted(groups)),
    )
