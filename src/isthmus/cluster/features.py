"""Feature levels of a cluster (KIP-584), as ApiVersions tells them."""

from __future__ import annotations

from typing import Final

from kafka.protocol.metadata import ApiVersionsRequest

from isthmus import __version__
from isthmus.model.description import Feature
from isthmus.wire.client import Client

_UNKNOWN_EPOCH: Final = -1


async def features(client: Client) -> tuple[Feature, ...] | None:
    """Levels that are in force, and what the broker that was asked supports; by name. `None` where it tells none.

    :raises ClusterError: No broker answered.
    """
    request = ApiVersionsRequest(client_software_name="isthmus", client_software_version=__version__, min_version=3)
    answer = await client.any(request)
    if answer.finalized_features_epoch == _UNKNOWN_EPOCH:
        return None
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    supported = {feature.name: feature for feature in answer.supported_features}
    return tuple(
        Feature(
            name=name,
            level=levels.get(name, 0),
            supported_min=supported[name].min_version if name in supported else 0,
            supported_max=supported[name].max_version if name in supported else 0,
        )
        for name in sorted({*levels, *supported})
    )
