"""Connectors in JSON."""

from __future__ import annotations

import json
import re

import pytest

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.interop.deployment import Impact, MirrorConnector
from isthmus.model.cluster import ClientProperties
from isthmus.model.naming import IDENTITY, MirrorMakerNaming
from testing.values.samples import CONNECTORS, Bench, about, configured, imported, read

SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def source(**settings: object) -> dict[str, object]:
    """A source connector from a to b."""
    return {
        "connector.class": SOURCE,
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        **settings,
    }


def test_three_connectors_are_one_link() -> None:
    """Topics of the first, groups of the second; the login of the first holds for the cluster."""
    bench = Bench(files={"/opt/secrets/mm2.properties": b"east=hunter2"})
    draft = imported(CONNECTORS, bench, name="connectors.json")
    text = draft.text.replace("${file:/opt/secrets/mm2.properties:east}", "secret")
    configuration = config.parse(text)

    (link,) = configuration.links
    assert [str(each) for each in link.topics.include] == ["orders", "/audit-[0-9]+/"]
    assert [str(each) for each in link.groups.include] == ["billing", "shop-*"]
    assert link.topics.naming == MirrorMakerNaming(source_alias="east", target_alias="west")
    assert link.source.security.username == "mirror"
    assert draft.is_complete
    assert "key.converter" not in " ".join(notice.key for notice in draft.notices)


@pytest.mark.parametrize(
    "shape",
    [
        source(),
        {"name": "x", "config": source()},
        [{"name": "x", "config": source(), "tasks": [], "type": "source"}],
        {"x": {"info": {"name": "x", "config": source(), "type": "source"}, "status": {}}},
        source(**{"connector.class": "MirrorSourceConnector"}),
        source(**{"connector.class": "MirrorSource"}),
    ],
    ids=["bare", "named", "list", "as Connect shows it", "short class", "shortest class"],
)
def test_every_shape_is_read(shape: object) -> None:
    """Alone or in a list, with a name or without, as it is put to Connect and as Connect shows it."""
    (flow,) = read(json.dumps(shape), "x.json").flows

    assert flow.name == "a->b"
    assert flow.connectors == {MirrorConnector.SOURCE}


def test_only_what_runs_is_missed() -> None:
    """Where no heartbeat connector is deployed, there are no heartbeats."""
    assert "heartbeats: true" not in imported(json.dumps(source())).text
    assert "heartbeats: true" in imported(CONNECTORS).text


def test_clients_of_a_side_belong_to_its_cluster() -> None:
    """source.consumer says how the source is read, target.producer how the target is written."""
    settings = {
        "source.consumer.security.protocol": "SSL",
        "source.consumer.auto.offset.reset": "latest",
        "source.consumer.receive.buffer.bytes": 65536,
        "producer.override.send.buffer.bytes": 131072,
    }
    configuration = configured(imported(json.dumps(source(**settings))))
    (link,) = configuration.links

    assert link.source.security.protocol == "SSL"
    # Of one connector, so of its link alone.
    assert (link.source.properties.receive_buffer_bytes, link.target.properties.send_buffer_bytes) == (65536, 131072)
    assert {each.properties for each in configuration.clusters} == {ClientProperties()}
    assert link.target.security.protocol == "PLAINTEXT"
    assert link.topics.start == -1


def test_clusters_without_aliases_have_those_of_mm2() -> None:
    """A cluster without an alias is called by its side."""
    nameless = {key: value for key, value in source().items() if not key.endswith("alias")}

    assert read(json.dumps(nameless)).flows[0].name == "source->target"


def test_empty_aliases_and_an_empty_separator_keep_names() -> None:
    """Clusters are called by their sides, topics as at the source, and positions bear the empty alias."""
    trick = {"source.cluster.alias": "", "target.cluster.alias": "", "replication.policy.separator": ""}
    text = json.dumps(source(**trick))
    (flow,) = read(text).flows

    assert (flow.name, flow.source_alias) == ("source->target", "")
    assert configured(imported(text)).links[0].topics.naming == IDENTITY


def test_a_key_that_is_written_twice_has_its_last_value() -> None:
    """As in Java, and told."""
    text = json.dumps(source(topics="last")).replace('"topics"', '"topics": "first", "topics"')
    draft = imported(text)

    assert str(configured(draft).links[0].topics.include[0]) == "last"
    assert "written twice" in about(draft, "topics").why


def test_other_connectors_are_left_out() -> None:
    """Whatever else runs in Connect is named, and a connector without its source connector too."""
    checkpoint = source(**{"connector.class": "MirrorCheckpointConnector", "source.cluster.alias": "c"})
    others = [source(), {"name": "sink", "config": {"connector.class": "org.example.Sink"}}, checkpoint]
    draft = imported(json.dumps(others))

    assert len(configured(draft).links) == 1
    assert about(draft, "sink: connector.class").impact is Impact.UNNEEDED
    assert "only MirrorCheckpointConnector" in about(draft, "connector.class").why


def test_connectors_that_differ_are_told() -> None:
    """One value counts, and whoever has the other hears of it."""
    checkpoint = source(**{"connector.class": "MirrorCheckpointConnector", "topics": "other"})
    draft = imported(json.dumps([checkpoint, source(topics="mine")]))

    assert str(configured(draft).links[0].topics.include[0]) == "mine"
    assert about(draft, "connector 1: topics").impact is Impact.CHANGED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"a": }', "x.json:2: this is not JSON"),
        ("[]", "x.json holds no connector of MirrorMaker 2"),
        ("[1]", "x.json holds something else than connectors"),
        ('{"config": 1}', "x.json: config of connector 1 is no object"),
        ("[" * 100_000, "x.json is no JSON that can be read"),
        ('{"a": ' + "9" * 5000 + "}", "x.json is no JSON that can be read"),
        (json.dumps(source(topics=["a"])), "x.json: topics of connector 1 is a list or an object"),
        (json.dumps(source(**{"connector.class": "MirrorHeartbeatConnector"})), "has no MirrorSourceConnector"),
        (json.dumps(source(**{"target.cluster.alias": "a"})), "has a for its source and its target"),
        (
            json.dumps([source(), source(**{"target.cluster.alias": "c", "source.cluster.bootstrap.servers": "z:1"})]),
            "give cluster a different addresses",
        ),
    ],
)
def test_what_is_no_deployment_is_refused(text: str, message: str) -> None:
    """Broken JSON, other JSON, and connectors that contradict one another: the error names what."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(text, "x.json")


def test_a_protocol_that_kafka_lacks_is_refused() -> None:
    """Of a connector's clients as of a properties file's: the error names connector and key."""
    with pytest.raises(ConfigError, match=r"connector 1: source\.cluster\.security\.protocol is no protocol of Kafka"):
        imported(json.dumps(source(**{"source.cluster.security.protocol": "TLS"})))


def test_transforms_of_the_source_connector_are_those_of_the_link() -> None:
    """What others transform is theirs: checkpoints and heartbeats, which no link changes."""
    chain = {"transforms": "d", "transforms.d.type": "org.apache.kafka.connect.transforms.DropHeaders"}
    of_source, of_others = chain | {"transforms.d.headers": "x"}, chain | {"transforms.d.headers": "y"}
    checkpoint = source(**{"connector.class": SOURCE.replace("Source", "Checkpoint")}, **of_others)
    draft = imported(json.dumps([source(**of_source), checkpoint]), name="connectors.json")
    (transform,) = configured(draft).links[0].transforms
    assert list(map(str, transform.drop)) == ["headers.x"]
    assert about(draft, "connector 2: transforms").impact is Impact.LOST
