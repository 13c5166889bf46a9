"""Strimzi's resource."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import pytest
import trustme
import yaml

from isthmus.errors import ConfigError
from isthmus.interop.deployment import Impact
from isthmus.model.naming import IDENTITY
from testing.values.samples import STRIMZI, TARGETED, about, configured, imported, keys, read


def secret(name: str, **data: bytes) -> str:
    """A secret of Kubernetes, as kubectl shows it."""
    encoded = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in data.items()}
    return "---\n" + yaml.safe_dump({"kind": "Secret", "metadata": {"name": name}, "data": encoded})


def test_the_example_becomes_a_link() -> None:
    """Topics, groups and how clusters are reached; what is in Kubernetes is asked for, command by command."""
    draft = imported(STRIMZI, name="mm2.yaml")

    configuration = yaml.safe_load(draft.text)  # what it names is not on this machine
    (link,) = configuration["links"]
    assert link["topics"]["include"] == ["/orders|flights/"]
    assert link["groups"]["include"] == ["*"]
    assert link["topics_interval_s"] == 60.0
    security = configuration["clusters"]["cluster-a"]["security"]
    assert (security["protocol"], security["mechanism"], security["username"]) == (
        "SASL_SSL",
        "SCRAM-SHA-512",
        "mirror",
    )
    tls = configuration["clusters"]["cluster-b"]["security"]["tls"]
    assert tls["key_file"] == "isthmus.secrets/cluster-b.key.pem"
    needed = [notice.todo for notice in draft.notices if notice.impact is Impact.NEEDED]
    assert len(needed) == 5
    command = "kubectl get secret mirror-user -o go-template='{{index .data \"password\" | base64decode}}'"
    assert any(command in todo and "> isthmus.secrets/cluster-a.password" in todo for todo in needed)


def test_the_commands_that_fetch_secrets_can_be_run(tmp_path: Path) -> None:
    """They name the namespace, make the folder, and no name in the file makes them do anything else."""
    text = STRIMZI.replace("secretName: mirror-user", "secretName: x; touch y")
    text = text.replace("metadata:\n", "metadata:\n  namespace: kafka\n", 1)
    draft = imported(text, name="mm2.yaml")
    (todo,) = [notice.todo for notice in draft.notices if "cluster-a.password" in notice.todo]
    script = 'kubectl() { printf "<%s>" "$@"; }\n' + todo.partition("configuration: ")[2]
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)

    given = (tmp_path / "isthmus.secrets" / "cluster-a.password").read_text()
    assert given.startswith("<get><secret><x; touch y><-n><kafka><-o><go-template={{index .data")
    assert [each.name for each in tmp_path.iterdir()] == ["isthmus.secrets"]


def test_secrets_in_the_same_file_are_taken() -> None:
    """Resource and secrets in one file need nothing more."""
    authority = trustme.CA()
    pem = authority.cert_pem.bytes()
    issued = authority.issue_cert("mirror")
    text = STRIMZI + "".join(
        (
            secret("cluster-a-cluster-ca-cert", ca_crt=pem, ca_old_crt=pem, ca_p12=b"x"),
            secret("cluster-b-cluster-ca-cert", ca_crt=pem),
            secret("mirror-user", password=b"hunter2"),
            secret("mirror-maker", user_crt=issued.cert_chain_pems[0].bytes(), user_key=issued.private_key_pem.bytes()),
        )
    )
    draft = imported(text, name="mm2.yaml")

    files = {each.name: each.content for each in draft.companions}
    assert files["isthmus.secrets/cluster-a.password"] == b"hunter2"
    assert files["isthmus.secrets/cluster-a.ca.pem"].count(b"BEGIN CERTIFICATE") == 2
    assert configured(draft).links[0].target.security.tls.certificate_file is not None
    assert keys(draft, Impact.NEEDED) == []
    assert "hunter2" not in draft.text + repr(draft)


def test_lists_of_resources_are_read() -> None:
    """What kubectl shows of several resources is a list of them."""
    items = [yaml.safe_load(each) for each in (STRIMZI, secret("mirror-user", password=b"hunter2"))]
    draft = imported(yaml.safe_dump({"kind": "List", "items": items}), name="all.yaml")

    assert [each.content for each in draft.companions] == [b"hunter2"]


def test_the_newer_resource_is_read() -> None:
    """Clusters stand where they are used, and what Connect needs of the target is told."""
    draft = imported(TARGETED, name="mm2.yaml")

    (link,) = configured(draft).links
    assert (link.source.alias, link.target.alias) == ("a", "b")
    assert [str(each) for each in link.topics.include] == ["*"]
    assert not link.groups.is_configured


def test_what_a_connector_says_goes_before_what_its_clusters_say() -> None:
    """As Strimzi has it: so an empty alias and an empty separator keep names, and positions bear the empty alias."""
    trick = '{config: {source.cluster.alias: "", replication.policy.separator: ""}}'
    text = TARGETED.replace("sourceConnector: {}", f"sourceConnector: {trick}")
    (flow,) = read(text, "mm2.yaml").flows

    assert (flow.name, flow.source_alias) == ("a->b", "")
    assert configured(imported(text, name="mm2.yaml")).links[0].topics.naming == IDENTITY


@pytest.mark.parametrize("written", ["checkpointConnector: {}", "sourceConnector: null\n    checkpointConnector: {}"])
def test_a_resource_that_copies_nothing_is_told_as_such(written: str) -> None:
    """Strimzi starts the connectors that are there: without a source connector the resource is valid, and copies
    nothing.
    """
    with pytest.raises(ConfigError, match="it can be run, and copies nothing") as refused:
        read(TARGETED.replace("sourceConnector: {}", written), "mm2.yaml")
    assert "sourceConnector: {}" in refused.value.hint


def test_what_runs_connect_is_told() -> None:
    """Replicas, versions and restarts belong to what Isthmus runs without."""
    draft = imported(STRIMZI, name="mm2.yaml")

    unneeded = keys(draft, Impact.UNNEEDED)
    assert {"spec.version", "spec.replicas", "spec.mirrors[0].sourceConnector.autoRestart"} <= set(unneeded)
    assert about(draft, "spec.replicas").line == 7


@pytest.mark.parametrize(
    ("login", "message"),
    [("type: kerberos", "KERBEROS"), ("type: oauth, clientId: x, tokenEndpointUri: https://x", "client_secret")],
)
def test_logins_without_an_equivalent_are_named(login: str, message: str) -> None:
    """What Strimzi offers beyond ours is reported."""
    text = TARGETED.replace('"a:1"', f'"a:1", authentication: {{{login}}}')
    draft = imported(text, name="mm2.yaml")

    assert any(message in notice.why for notice in draft.notices if notice.impact is Impact.NEEDED)


BOMB = (
    "kind: KafkaMirrorMaker2\n"
    + "a0: &a0 [x, x]\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nkind: Kafka\n", "mm2.yaml holds no resource of kind KafkaMirrorMaker2"),
        (f"{TARGETED}---\n{TARGETED}", "mm2.yaml holds 2 resources"),
        ("kind: KafkaMirrorMaker2\n", "mm2.yaml:1: spec is missing"),
        ("kind: KafkaMirrorMaker2\nspec: {mirrors: []}\n", "mm2.yaml:2: spec.mirrors has to list"),
        (TARGETED.replace("alias: a, ", ""), "mm2.yaml:10: spec.mirrors[0].source.alias is missing"),
        (STRIMZI.replace('sourceCluster: "cluster-a"', "sourceCluster: z"), "sourceCluster is the alias of no cluster"),
        (TARGETED.replace("b:1", "[b]"), "spec.target.bootstrapServers has to be a text"),
        (TARGETED + "x: [\n", "this is not YAML"),
        (TARGETED + "kind: x\n", "mm2.yaml:12: kind is written twice"),
        (
            TARGETED + "---\nkind: Secret\nmetadata: {name: x}\ndata: {p: '%'}\n",
            "mm2.yaml:15: data.p of a secret is not base64",
        ),
        (BOMB, "more than 100000 values"),
        (TARGETED + "\x07", "it holds a character YAML does not allow"),
    ],
)
def test_what_is_no_deployment_is_refused(text: str, message: str) -> None:
    """The error names the place and the line, in finite time."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(text, "mm2.yaml")
