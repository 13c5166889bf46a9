"""The checks of both clusters before a link is declared between them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus import __version__
from isthmus.doctor.examine import DIVERGENCE, examine
from isthmus.errors import PlanRefused, UnsupportedByBroker
from isthmus.kafka.admin.brokers import broker_releases, describe_cluster
from isthmus.kafka.admin.features import features
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import SCHEMA_VERSION
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.releases import hull
from isthmus.model.links.semantics import DECIDING, FEATURES, KAFKA, MARKERS, SCHEMA, TOPIC_IDS

_TOPIC_IDS_FROM: Final = 10
"""The version of Metadata that contains the ids of topics (KIP-516)."""
_NONE: Final = (0, -1)


async def handshake(configuration: Configuration, what: str) -> None:
    """Require that clusters are ready for the links between them, as `isthmus doctor` examines them. Diverged topics
    are accepted: an old source that is to follow the new one is recovered by the link itself.

    :raises PlanRefused: They are not ready.
    """
    links, clusters = configuration.links, configuration.clusters
    subjects = {*(link.name for link in links), *(cluster.alias for cluster in clusters)}
    async with ClientSession() as session:
        # A connection that is open already would not show that one can be opened.
        found = [each for each in await examine(configuration, session) if each.level is Level.ERROR]
    errors = [each for each in found if each.subject.split("/")[0] in subjects and each.check != DIVERGENCE]
    if errors:
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if errors[1:] else ""
        raise PlanRefused(
            f"{what} cannot be created: {first.subject}: {first.check}: {first.message}{more}", hint=first.hint
        )


async def semantics_of(client: Client) -> dict[str, Any]:
    """Return what a cluster can keep, and which Isthmus found it: see `model.semantics`.

    :raises ClusterError: A broker does not answer.
    """
    brokers = (await describe_cluster(client)).brokers
    releases = await asyncio.gather(*(broker_releases(client, node_id) for node_id in brokers))
    offered = [(await client.connection(node_id)).api_versions for node_id in brokers]
    levels = None
    with contextlib.suppress(UnsupportedByBroker):
        levels = await features(client)
    return {
        KAFKA: str(hull(releases)),
        FEATURES: {each.name: each.level for each in levels or () if each.name in DECIDING},
        TOPIC_IDS: all(each.get(MetadataRequest.API_KEY, _NONE)[1] >= _TOPIC_IDS_FROM for each in offered),
        MARKERS: all(WriteTxnMarkersRequest.API_KEY in each for each in offered),
        "isthmus": __version__,
        SCHEMA: SCHEMA_VERSION,
    }
