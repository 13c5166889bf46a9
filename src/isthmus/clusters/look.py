"""Survey a cluster for the first time."""

from __future__ import annotations

from isthmus.clusters.survey import ClusterSurvey
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.model.naming import RESERVED_PREFIX


async def survey(client: Client) -> ClusterSurvey:
    """List the topics and groups of a cluster, and count its brokers.

    :raises ClusterError: It does not answer, or rejects our login.
    """
    metadata = await client.metadata(None)
    groups = merge_listings(await list_groups(client))
    return ClusterSurvey(
        cluster_id=metadata.cluster_id or "",
        brokers=len(metadata.brokers),
        topics=tuple(sorted(name for name in metadata.topics if not name.startswith(RESERVED_PREFIX))),
        groups=tuple(sorted(groups)),
    )
