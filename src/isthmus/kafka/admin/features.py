"""Feature levels of a cluster (KIP-584), from ApiVersions."""

from __future__ import annotations

from typing import Final

from kafka.protocol.metadata import ApiVersionsRequest

from isthmus import __version__
from isthmus.errors import UnsupportedByBroker
from isthmus.kafka.client import Client
from isthmus.model.kafka.description import Feature

_UNKNOWN_EPOCH: Final = -1


async def features(client: Client) -> tuple[Feature, ...] | None:
    """The finalized levels, and those that the asked broker supports, by name. `None` if it reports none.

    :raises ClusterError: No broker answered.
    """
    answer = await client.any(_request())
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


async def supported_levels(client: Client, node_id: int) -> dict[str, int]:
    """The highest level of each feature that one broker supports; none with ZooKeeper and before KIP-584.

    :raises ClusterError: The broker did not answer.
    """
    try:
        answer = await client.broker(node_id, _request())
    except UnsupportedByBroker:
        return {}
    return {feature.name: int(feature.max_version) for feature in answer.supported_features}


def _request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="isthmus", client_software_version=__version__, min_version=3)
