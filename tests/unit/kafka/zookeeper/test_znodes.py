"""Kafka's nodes in ZooKeeper, as brokers of 3.9 and older write them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.zookeeper.znodes import registry_of
from isthmus.model.kafka.registry import PartitionRegistration, RegistryNode

BROKER = (
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    '"endpoints":["PLAINTEXT://127.0.0.1:9092","SSL://[::1]:9093"],"jmx_port":-1,"port":9092,"host":"127.0.0.1",'
    '"version":5,"timestamp":"1795265370945"}'
)
ASSIGNMENT = (
    '{"partitions":{"11":[2,0],"12":[0]},"topic_id":"x","adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = '{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":3,"isr":[0,2]}'
PATHS = (
    "/brokers/ids/0",
    "/brokers/topics/a.b-c",
    "/brokers/topics/a.b-c/partitions/11/state",
    "/cluster/id",
    "/controller",
)


def test_nodes_become_a_registry() -> None:
    """Every listener's endpoint, the partitions' states, the id and the controller are read."""
    nodes = [
        RegistryNode("/brokers/ids/0", BROKER, is_ephemeral=True),
        RegistryNode("/brokers/topics/a.b-c", ASSIGNMENT, is_ephemeral=False),
        RegistryNode("/brokers/topics/a.b-c/partitions/11/state", STATE, is_ephemeral=False),
        RegistryNode("/cluster/id", '{"version":"1","id":"PwgUu6ziR5-VktPGIwz_dg"}', is_ephemeral=False),
        RegistryNode("/controller", '{"version":2,"brokerid":0,"timestamp":"1","kraftControllerEpoch":-1}', True),
        RegistryNode("/controller_epoch", "1", is_ephemeral=False),
    ]
    registry = registry_of(reversed(nodes))

    assert registry.brokers == {0: frozenset({"127.0.0.1:9092", "[::1]:9093"})}
    assert registry.partitions == {("a.b-c", 11): PartitionRegistration(0, 3, (0, 2), (2, 0))}
    assert (registry.cluster_id, registry.controller) == ("PwgUu6ziR5-VktPGIwz_dg", 0)
    assert list(registry.nodes) == nodes


@given(
    st.dictionaries(
        st.sampled_from(PATHS),
        st.text() | st.sampled_from(["null", "[]", '{"partitions": {"x": 1, "1": ["y"]}}', '{"isr": 1}', '{"id": 1}']),
    )
)
def test_unreadable_nodes_are_shown_and_not_understood(texts: dict[str, str]) -> None:
    """Whatever is in a node, looking at it does no harm."""
    nodes = [RegistryNode(path, text, is_ephemeral=False) for path, text in texts.items()]
    registry = registry_of(nodes)

    assert set(registry.nodes) == set(nodes)
    assert registry.partitions == {}
