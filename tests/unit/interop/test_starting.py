"""A configuration to start with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import config
from isthmus.clusters.survey import ClusterSurvey
from isthmus.errors import ConfigError
from isthmus.interop.files import ThisMachine, write_all
from isthmus.interop.starting import Start, starter

MACHINE = ThisMachine(Path("/nowhere"), {})
SOURCE = Start.of("east", "east:9092", None, "")
TARGET = Start.of("west", "west-1:9092,west-2:9092", None, "")


def test_it_runs_as_it_is() -> None:
    """Two clusters, one link, the topics that were named; all else is said in comments."""
    draft = starter(SOURCE, TARGET, MACHINE, include=["orders", "/a+/"], folder="s")

    found = config.parse(draft.text, environment={})

    assert found.cluster("west").bootstrap_servers == ("west-1:9092", "west-2:9092")
    (link,) = found.links
    assert (link.name, link.source.alias, link.target.alias) == ("east-west", "east", "west")
    assert [str(pattern) for pattern in link.topics.include] == ["orders", "/a+/"]
    assert found.warnings == ()


def test_what_is_said_in_comments_can_be_used() -> None:
    """Each key that stands in a comment is one that the file may have."""
    draft = starter(SOURCE, TARGET, MACHINE, include=["*"], folder="s")
    offered = {
        "groups": 'groups: {include: ["*"]}',
        "limits": "limits: {bytes_per_s: 50 MB}",
        "naming": 'naming: {mm2: {separator: "."}}',
        "offsets": "offsets: mapped",
        "configs": "configs: {sync: false}",
    }
    text = draft.text
    for key, yaml in offered.items():
        assert f"# {yaml} " in text, key
        comment = next(line for line in text.splitlines() if f"# {yaml} " in line)
        text = text.replace(comment, comment[: comment.index("#")] + yaml)

    (link,) = config.parse(text, environment={}).links

    assert link.limits.bytes_per_s == 50_000_000
    assert link.groups.is_configured


def test_a_login_is_taken_from_the_properties_of_a_client(tmp_path: Path) -> None:
    """As Kafka's own tools read them; the password goes into a file beside, for its owner alone."""
    properties = b"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="s3cret";
"""
    source = Start.of("east", "east:9092", properties, "client.properties")

    draft = starter(source, TARGET, MACHINE, include=["*"], folder="isthmus.secrets")
    write_all(draft.text, draft.companions, tmp_path / "isthmus.yaml", force=False)

    assert "s3cret" not in draft.text
    security = config.load(tmp_path / "isthmus.yaml", environment={}).cluster("east").security
    assert (security.mechanism, security.username) == ("SCRAM-SHA-512", "ada")
    assert security.password is not None
    assert security.password.reveal() == "s3cret"


@given(st.lists(st.text(min_size=1, max_size=20), max_size=40))
def test_whatever_topics_are_called(names: list[str]) -> None:
    """What clusters have stands in comments alone, cut where there is too much."""
    seen = {"east": ClusterSurvey(cluster_id="\n- x", brokers=3, topics=tuple(names))}

    draft = starter(SOURCE, TARGET, MACHINE, include=["*"], folder="s", seen=seen)

    plain = starter(SOURCE, TARGET, MACHINE, include=["*"], folder="s")
    assert config.parse(draft.text, environment={}) == config.parse(plain.text, environment={})


def test_no_addresses_are_refused() -> None:
    """Before anything is asked or written."""
    with pytest.raises(ConfigError, match="not host:port"):
        starter(Start.of("east", "east", None, ""), TARGET, MACHINE, include=["*"], folder="s")
