"""Where MirrorMaker 2 keeps its positions, as far as its file says."""

from __future__ import annotations

import json

import pytest

from isthmus.errors import ConfigError
from isthmus.interop.predecessors import copying_flows, predecessor_of
from isthmus.interop.reading import read_deployment
from isthmus.mirrormaker.predecessor import Predecessor
from testing.values.samples import STRIMZI, TARGETED, pair


@pytest.mark.parametrize(
    ("lines", "topic", "group"),
    [
        ((), "mm2-offsets.a.internal", "a-mm2"),
        (("b.offset.storage.topic = elsewhere", "b.group.id = workers"), "elsewhere", "workers"),
        # MirrorMakerConfig.workerConfig takes these without a cluster, and then before all others.
        (("b.offset.storage.topic = elsewhere", "offset.storage.topic = all"), "all", "a-mm2"),
        (("a->b.offset.storage.topic = elsewhere", "group.id = workers"), "mm2-offsets.a.internal", "a-mm2"),
        # A connector may have one of its own (KIP-618).
        (("b.offset.storage.topic = elsewhere", "a->b.offsets.storage.topic = own"), "own", "a-mm2"),
    ],
)
def test_a_process_of_its_own(lines: tuple[str, ...], topic: str, group: str) -> None:
    """It has a topic and a group for each source, unless the cluster of its workers has others."""
    deployment = read_deployment(pair(*lines).encode(), "mm2.properties")
    (flow,) = copying_flows(deployment)
    assert predecessor_of(deployment, flow) == Predecessor(source_alias="a", offsets_topic=topic, worker_group=group)


@pytest.mark.parametrize(
    ("text", "topic", "group"),
    [
        (STRIMZI, "mirrormaker2-cluster-offsets", "mirrormaker2-cluster"),
        (
            STRIMZI.replace("    config:\n", "    config:\n      offset.storage.topic: kept\n", 1),
            "kept",
            "mirrormaker2-cluster",
        ),
        (
            TARGETED.replace("    groupId: mirror\n", "    groupId: mirror\n    offsetStorageTopic: mm2-offsets\n"),
            "mm2-offsets",
            "mirror",
        ),
    ],
)
def test_strimzis_workers_share_a_group(text: str, topic: str, group: str) -> None:
    """All flows of a resource have one topic: the one it names, in either version, or the one its operator chooses."""
    deployment = read_deployment(text.encode(), "mm2.yaml")
    (flow,) = copying_flows(deployment)
    found = predecessor_of(deployment, flow)
    assert (found.source_alias, found.offsets_topic, found.worker_group) == (flow.source, topic, group)


def test_connectors_do_not_say_it() -> None:
    """The topic and the group are those of the workers, of which a connector knows nothing: the topic has to be named,
    and the group may be.
    """
    connector = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    deployment = read_deployment(json.dumps({"name": "mirror", "config": connector}).encode(), "connectors.json")
    (flow,) = copying_flows(deployment)
    with pytest.raises(ConfigError, match="does not name the topic"):
        predecessor_of(deployment, flow)
    unnamed = predecessor_of(deployment, flow, "connect-offsets")
    assert (unnamed.offsets_topic, unnamed.worker_group) == ("connect-offsets", None)
    for group in ("workers", ""):
        assert predecessor_of(deployment, flow, "connect-offsets", group).worker_group == group
