"""`isthmus acls generate`: the forms that rules are printed in."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from isthmus.cli.clusters.acls import AclFormat, generate
from isthmus.errors import ConfigError
from isthmus.model.links.needs import Side

FILE = """\
clusters:
  east:
    bootstrap_servers: "e:1,e:2"
    security: {mechanism: SCRAM-SHA-512, username: Mirror_East, password: "${env:PASSWORD}"}
  west: {bootstrap_servers: "w:1"}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["orders.*"]}}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in which only the source has a login that tells who we are."""
    monkeypatch.setenv("PASSWORD", "sesame")
    (tmp_path / "isthmus.yaml").write_text(FILE)
    return tmp_path / "isthmus.yaml"


def test_commands(path: Path, capsys: Capture) -> None:
    """One for each thing that rules are about, at the cluster of its side, for the principal there."""
    generate("east-west", target_principal="User:CN=west mirror", path=path)
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert lines[0] == [
        *("kafka-acls.sh", "--bootstrap-server", "e:1,e:2", "--add", "--allow-principal", "User:Mirror_East"),
        *("--operation", "Read", "--operation", "DescribeConfigs"),
        *("--topic", "orders.", "--resource-pattern-type", "prefixed"),
    ]
    targets = [line for line in lines if line[2] == "w:1"]
    assert len(targets) == len(lines) - 1
    assert all(line[5] == "User:CN=west mirror" for line in targets)
    (cluster,) = [line for line in targets if "--cluster" in line]
    assert cluster[6:] == ["--operation", "DescribeConfigs", "--operation", "Alter", "--cluster"]


def test_strimzi(path: Path, capsys: Capture) -> None:
    """A KafkaUser for each side, with Strimzi's words for patterns and a name that Kubernetes takes."""
    generate("east-west", side=Side.SOURCE, path=path, output=AclFormat.STRIMZI)
    (user,) = yaml.safe_load_all(capsys.readouterr().out)
    assert (user["kind"], user["metadata"]["name"]) == ("KafkaUser", "mirror-east")
    assert user["spec"]["authentication"] == {"type": "scram-sha-512"}
    (acl,) = user["spec"]["authorization"]["acls"]
    assert acl["resource"] == {"type": "topic", "name": "orders.", "patternType": "prefix"}
    assert acl["operations"] == ["Read", "DescribeConfigs"]


def test_json(path: Path, capsys: Capture) -> None:
    """A list of rules, each with what it is for; no secret is in it."""
    generate("east-west", target_principal="User:west", path=path, output=AclFormat.JSON)
    text = capsys.readouterr().out
    rows = json.loads(text)
    assert {(row["side"], row["cluster"], row["principal"]) for row in rows} == {
        ("source", "east", "User:Mirror_East"),
        ("target", "west", "User:west"),
    }
    (write,) = [row for row in rows if (row["name"], row["operation"]) == ("orders.", "WRITE")]
    assert write["pattern"] == "PREFIXED"
    assert write["needed_to"] == "write its records"
    assert write["is_required"]
    assert "sesame" not in text


def test_unknown_principal(path: Path) -> None:
    """Where the login does not say who we are, the option that does is named."""
    with pytest.raises(ConfigError) as told:
        generate("east-west", path=path)
    assert "--target-principal User:NAME" in told.value.hint
    with pytest.raises(ConfigError, match="it has no type"):
        generate("east-west", target_principal="west", path=path)
