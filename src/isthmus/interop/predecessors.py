"""The topic in which a deployment of MirrorMaker 2 keeps the positions of its flows, and the group of its workers."""

from __future__ import annotations

from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.deployment import Deployment, Flow, MirrorConnector, Setting
from isthmus.interop.properties import FORM as DEDICATED
from isthmus.interop.strimzi import FORM as STRIMZI
from isthmus.mirrormaker.predecessor import Predecessor

_OFFSETS_TOPIC: Final = "offset.storage.topic"
_OWN_OFFSETS_TOPIC: Final = "offsets.storage.topic"
"""A topic of a connector's own, which takes precedence over that of its workers (KIP-618)."""
_WORKER_GROUP: Final = "group.id"
_OF_STRIMZI: Final = ("mirrormaker2-cluster-offsets", "mirrormaker2-cluster")
"""The defaults of Strimzi's operator (KafkaMirrorMaker2Cluster)."""


def predecessor_of(
    deployment: Deployment, flow: Flow, offsets_topic: str | None = None, worker_group: str | None = None
) -> Predecessor:
    """Return the facts about the flow that a link is to take over. Arguments take precedence over the file.

    :raises ConfigError: The file does not say where positions are kept.
    """
    workers = {**deployment.clusters[flow.target], **_said_of_all(flow)}
    setting = flow.settings.get(_OWN_OFFSETS_TOPIC, workers.get(_OFFSETS_TOPIC))
    topic = offsets_topic or ("" if setting is None else setting.value)
    group = workers[_WORKER_GROUP].value if _WORKER_GROUP in workers else None
    if deployment.form == DEDICATED:
        # As MirrorMakerConfig.workerConfig has it.
        topic, group = topic or f"mm2-offsets.{flow.source}.internal", group or f"{flow.source}-mm2"
    if deployment.form == STRIMZI:
        topic, group = topic or _OF_STRIMZI[0], group or _OF_STRIMZI[1]
    if not topic:
        raise ConfigError(
            f"{deployment.name} does not name the topic in which the workers keep the positions of {flow.name}",
            field=_OFFSETS_TOPIC,
            hint="Name it by --offsets-topic: it is offset.storage.topic of the workers.",
        )
    group = group if worker_group is None else worker_group
    return Predecessor(source_alias=flow.source_alias, offsets_topic=topic, worker_group=group)


def _said_of_all(flow: Flow) -> dict[str, Setting]:
    """Return the setting without a cluster before it, which takes precedence over the one for the cluster of the
    workers.
    """
    key = _OFFSETS_TOPIC
    return {key: flow.settings[key]} if key in flow.settings and flow.settings[key].written == key else {}


def copying_flows(deployment: Deployment) -> tuple[Flow, ...]:
    """Return the flows that copy records."""
    return tuple(flow for flow in deployment.flows if MirrorConnector.SOURCE in flow.connectors)
