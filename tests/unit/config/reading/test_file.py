"""The configuration file as a whole: finding it, reading it, and the values that come of it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from isthmus import config
from isthmus.config.reading import places
from isthmus.config.reading.places import SMALLEST
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster, OAuth, Secret, Security, Tls, ZooKeeper
from isthmus.model.configuration import Configuration, LedgerSettings, SparkSettings
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.link import Limits, Link, Transactions
from isthmus.model.selection import TopicPattern, TopicSettings

FULL = """\
clusters:
  east:
    bootstrap_servers: ["one.example:9092", "[::1]:9093"]
    security:
      mechanism: SCRAM-SHA-512
      username: isthmus
      password: ${env:EAST_PASSWORD}
      tls: {ca_file: ca.pem, certificate_file: /pki/me.pem, key_password: "${env:KEY_PASSWORD}"}
  west:
    bootstrap_servers: a:1, b:2
    zookeeper: c:2181, d:2181/kafka
    security:
      protocol: SASL_PLAINTEXT
      mechanism: OAUTHBEARER
      oauth:
        token_endpoint_url: https://login.example/token
        client_id: isthmus
        client_secret: ${env:CLIENT_SECRET}
        scope: kafka
links:
  - name: east-west
    source: east
    target: west
    topics:
      include: [flights, "orders.*", "/audit-[0-9]+/"]
      exclude: [orders.tmp]
    limits: {bytes_per_s: 50 MiB, bytes_in_flight: 1000000}
    on_data_gap: continue
    compaction_holes_max: 0
    transactions: {aborted: omit}
    topics_interval_s: 0.5
spark:
  master: spark://127.0.0.1:7077
  conf: {spark.ui.enabled: false, spark.executor.cores: 2, spark.app.name: mirror}
  slots: 4
  lease_term_s: 20
ledger: {replication_factor: 3}
"""
ENVIRONMENT = {"EAST_PASSWORD": "hunter2", "KEY_PASSWORD": "hunter3", "CLIENT_SECRET": "hunter4"}


def refused(text: str) -> ConfigError:
    """The error that a configuration of this text ends in."""
    with pytest.raises(ConfigError) as caught:
        config.parse(text, environment={})
    return caught.value


def test_smallest_document() -> None:
    """Two clusters and a link are enough; the rest has defaults."""
    configuration = config.parse(SMALLEST)

    east = Cluster(alias="east", bootstrap_servers=("127.0.0.1:9192",))
    west = Cluster(alias="west", bootstrap_servers=("127.0.0.1:9292",))
    topics = TopicSettings(include=(TopicPattern("literal", "flights"), TopicPattern("prefix", "orders.")))
    assert configuration == Configuration(
        clusters=(east, west),
        links=(Link(name="east-west", source=east, target=west, topics=topics),),
    )


def test_full_document() -> None:
    """Every key arrives in the values."""
    configuration = config.parse(FULL, folder=Path("/etc/isthmus"), environment=ENVIRONMENT)

    assert configuration.cluster("east") == Cluster(
        alias="east",
        bootstrap_servers=("one.example:9092", "[::1]:9093"),
        security=Security(
            protocol="SASL_SSL",
            mechanism="SCRAM-SHA-512",
            username="isthmus",
            password=Secret("hunter2"),
            tls=Tls(
                ca_file="/etc/isthmus/ca.pem",
                certificate_file="/pki/me.pem",
                key_password=Secret("hunter3"),
            ),
        ),
    )
    assert configuration.cluster("west") == Cluster(
        alias="west",
        bootstrap_servers=("a:1", "b:2"),
        security=Security(
            protocol="SASL_PLAINTEXT",
            mechanism="OAUTHBEARER",
            oauth=OAuth(
                token_endpoint_url="https://login.example/token",
                client_id="isthmus",
                client_secret=Secret("hunter4"),
                scope="kafka",
            ),
        ),
        zookeeper=ZooKeeper(connect="c:2181,d:2181/kafka"),
    )
    assert configuration.link("east-west") == Link(
        name="east-west",
        source=configuration.cluster("east"),
        target=configuration.cluster("west"),
        topics=TopicSettings(
            include=(
                TopicPattern("literal", "flights"),
                TopicPattern("prefix", "orders."),
                TopicPattern("regex", "audit-[0-9]+"),
            ),
            exclude=(TopicPattern("literal", "orders.tmp"),),
        ),
        limits=Limits(bytes_per_s=52428800, bytes_in_flight=1000000),
        on_data_gap="continue",
        compaction_holes_max=0,
        transactions=Transactions(aborted=AbortedPolicy.OMIT),
        topics_interval_s=0.5,
    )
    assert configuration.spark == SparkSettings(
        master="spark://127.0.0.1:7077",
        conf={
            "spark.ui.enabled": "false",
            "spark.executor.cores": "2",
            "spark.app.name": "mirror",
        },
        slots=4,
        lease_term_s=20.0,
    )
    assert configuration.ledger == LedgerSettings(replication_factor=3)
    assert configuration.warnings == ()


def test_secrets_do_not_show() -> None:
    """Neither the configuration's text form nor that of any part of it shows a secret."""
    shown = repr(config.parse(FULL, environment=ENVIRONMENT))

    assert "isthmus" in shown
    assert "hunter" not in shown


def test_values_travel_to_executors() -> None:
    """The configuration survives pickling, secrets included."""
    configuration = config.parse(FULL, environment=ENVIRONMENT)

    assert pickle.loads(pickle.dumps(configuration)) == configuration  # noqa: S301


def test_secret_written_out_is_warned_of_but_not_shown() -> None:
    """A literal password works; the warning names its place and not the password."""
    text = FULL.replace("${env:EAST_PASSWORD}", "hunter2")

    (warning,) = config.parse(text, environment=ENVIRONMENT).warnings

    assert "isthmus.yaml:7: clusters.east.security.password" in warning
    assert "hunter2" not in warning


def test_nothing_to_mirror_is_warned_of() -> None:
    """No topics match by default: a link without any is most likely a mistake."""
    text = SMALLEST.replace('topics: {include: ["flights", "orders.*"]}', "topics:")

    (warning,) = config.parse(text).warnings

    assert "isthmus.yaml:5: the link east-west includes no topics" in warning


@pytest.mark.parametrize(
    ("selected", "warned"),
    [
        ('topics: {include: ["flights", "orders.*"], exclude: ["orders.*", "x", "flights"]}', ["topics"]),
        (
            'topics: {include: [flights], exclude: ["*"]}, groups: {include: ["*"], exclude: ["*"]}',
            ["topics", "groups"],
        ),
        ('topics: {include: ["flights", "orders.*"], exclude: ["orders.*"]}', []),
    ],
)
def test_lists_that_contradict_one_another_are_warned_of(selected: str, warned: list[str]) -> None:
    """Exclusion wins, so that nothing is selected where it names all that is included."""
    text = SMALLEST.replace('topics: {include: ["flights", "orders.*"]}', selected)

    told = [warning for warning in config.parse(text).warnings if "none is selected" in warning]
    assert [warning.partition("excludes all ")[2].split()[0] for warning in told] == warned


def test_key_without_a_value_is_not_given() -> None:
    """An empty section is the same as none."""
    assert config.parse(SMALLEST + "spark:\nledger: {replication_factor: null}\n") == config.parse(SMALLEST)


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        (("links:", "linkz:"), "isthmus.yaml:4: linkz is not a known key", "Did you mean links?"),
        (
            ("bootstrap_servers:", "bootstrap.servers:"),
            "isthmus.yaml:2: clusters.east.bootstrap.servers is not a known key",
            "Did you mean bootstrap_servers?",
        ),
        (
            ("include:", "includes:"),
            "isthmus.yaml:5: links[0].topics.includes is not a known key",
            "Did you mean include?",
        ),
        (
            ("topics:", "on_data_gap: ignore, topics:"),
            "isthmus.yaml:5: links[0].on_data_gap must be 'stop' or 'continue'",
            "stop it, or record the gap",
        ),
        (
            ("topics:", "compaction_holes_max: many, topics:"),
            "links[0].compaction_holes_max must be a whole number",
            "compaction_holes_max: How many",
        ),
        (
            ("topics:", "compaction_holes_max: -1, topics:"),
            "links[0].compaction_holes_max must be at least 0",
            "compaction_holes_max: How many",
        ),
        (
            ("topics:", "topics_interval_s: 0, topics:"),
            "links[0].topics_interval_s must be greater than 0",
            "in seconds",
        ),
        (
            ("topics:", "topics_interval_s: 5 M, topics:"),
            "links[0].topics_interval_s must be a plain number: the key's name ends in its unit",
            "in seconds",
        ),
        (
            ("topics:", "limits: {bytes_per_s: 10 Mb}, topics:"),
            "links[0].limits.bytes_per_s has the unit Mb, which may mean bits: for bytes write 10 MB or 10 MiB",
            "bytes_per_s: Bytes copied",
        ),
        (
            ("topics:", "limits: {bytes_per_s: 5 Mib/s}, topics:"),
            "links[0].limits.bytes_per_s must be a number of bytes such as",
            "bytes_per_s: Bytes copied",
        ),
        (
            ("topics:", "limits: {bytes_per_s: 0}, topics:"),
            "links[0].limits.bytes_per_s must be greater than 0",
            "bytes_per_s: Bytes copied",
        ),
        (("name: east-west", "name: 5"), "links[0].name must be text: put it in quotes", "name:"),
        (("name: east-west", "name: a b"), "links[0].name must consist of", "name:"),
        (("east: {", "ea st: {"), "isthmus.yaml:2: clusters.ea st must consist of", "clusters:"),
        (("name: east-west, ", ""), "isthmus.yaml:5: links[0].name is missing", "The link's name"),
        (("127.0.0.1:9192", "127.0.0.1"), "bootstrap_servers[0] must be host:port", "Brokers"),
        (("127.0.0.1:9192", "a:99999"), "bootstrap_servers[0] must be host:port", "Brokers"),
        (
            ("east: {", "east: {zookeeper: a, "),
            "clusters.east.zookeeper.connect must be host:port",
            "zookeeper.connect",
        ),
        (
            ("east: {", "east: {zookeeper: 'a:1/', "),
            "clusters.east.zookeeper.connect must end in a path",
            "zookeeper.connect",
        ),
        (('"flights"', '"fl*ghts"'), "topics.include[0] cannot be used", "Topics to mirror"),
        (('"flights"', '"/(/"'), "topics.include[0] cannot be used", "Topics to mirror"),
        (
            ('["flights", "orders.*"]', "flights"),
            "links[0].topics.include must be a list",
            "Topics to mirror",
        ),
        (("clusters:", "clusters: {}\nx:"), "isthmus.yaml:1: clusters must not be empty", ""),
        (("links:", "spark: 5\nlinks:"), "spark must be a section with keys of its own", "Spark"),
    ],
)
def test_mistake_is_told_in_plain_words(change: tuple[str, str], says: str, hint: str) -> None:
    """The error names the dotted path, the line and what is expected there."""
    error = refused(SMALLEST.replace(*change))

    assert says in str(error)
    assert hint in error.hint
    assert error.hint


def test_all_mistakes_are_told_at_once_in_order() -> None:
    """One run shows everything that has to be corrected; field and line are the first one's."""
    error = refused(SMALLEST.replace("bootstrap_servers", "servers").replace("target", "goal"))

    lines = [int(line.split(":")[1]) for line in str(error).splitlines()]
    assert len(lines) == 6
    assert lines == sorted(lines)
    assert (error.field, error.line) == ("clusters.east.bootstrap_servers", 2)


def test_unset_reference_is_told_once() -> None:
    """The missing variable is named, and that the text is therefore empty is not told as well."""
    error = refused(SMALLEST.replace("127.0.0.1:9192", "${env:EAST}"))

    assert str(error) == (
        "isthmus.yaml:2: clusters.east.bootstrap_servers refers to the environment variable EAST, which is not set"
    )


def test_wrong_value_from_a_reference_is_not_shown() -> None:
    """What a reference yields may be a secret that ended up in the wrong place."""
    text = SMALLEST.replace("topics:", "on_data_gap: ${env:SECRET}, topics:")
    text = text.replace("127.0.0.1:9192", "${env:SECRET}")

    with pytest.raises(ConfigError) as caught:
        config.parse(text, environment={"SECRET": "hunter2"})

    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_given_file_is_found_before_the_variable(tmp_path: Path) -> None:
    """-c wins over ISTHMUS_CONFIG."""
    given, named = tmp_path / "given.yaml", tmp_path / "named.yaml"
    given.write_text(SMALLEST, encoding="utf-8")
    named.write_text(SMALLEST, encoding="utf-8")
    environment = {"ISTHMUS_CONFIG": str(named)}

    assert config.find(given, environment) == given
    assert config.find(None, environment) == named


def test_file_is_looked_for_upwards_then_of_the_user_then_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the project goes; the nearest one wins."""
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    (project / "a" / "b").mkdir(parents=True)
    (project / ".git").mkdir()
    system = tmp_path / "etc"
    monkeypatch.setattr(places, "SYSTEM_FOLDER", system)
    monkeypatch.chdir(project / "a" / "b")
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    for folder in (system, tmp_path / "xdg" / "isthmus", project, project / "a", project / "a" / "b"):
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "isthmus.yaml").touch()
        assert config.find(None, environment).absolute() == folder / "isthmus.yaml"
    monkeypatch.chdir(home)
    (home / "isthmus.yaml").touch()
    assert config.find(None, environment).absolute() == home / "isthmus.yaml"
    for each in (project, project / "a", project / "a" / "b"):
        (each / "isthmus.yaml").unlink()
    monkeypatch.chdir(project / "a" / "b")
    assert config.find(None, environment) == tmp_path / "xdg" / "isthmus" / "isthmus.yaml"
    assert config.find(None, {"HOME": str(home)}) == system / "isthmus.yaml"


def test_what_anybody_may_have_written_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder such as /tmp, on the way upwards; whoever is in it means it."""
    (tmp_path / "mine").mkdir()
    tmp_path.chmod(0o777)
    (tmp_path / "isthmus.yaml").touch()
    monkeypatch.setattr(places, "SYSTEM_FOLDER", tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path / "mine")
    with pytest.raises(ConfigError, match="there is no configuration"):
        config.find(None, {"HOME": str(tmp_path / "home")})
    monkeypatch.chdir(tmp_path)
    assert config.find(None, {"HOME": str(tmp_path / "home")}) == Path("isthmus.yaml")


def test_file_beside_us_is_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -c and ISTHMUS_CONFIG, isthmus.yaml of the current folder is taken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "isthmus.yaml").write_text(SMALLEST, encoding="utf-8")

    assert config.load(environment={}) == config.parse(SMALLEST)


@pytest.mark.parametrize(
    ("given", "environment", "says"),
    [
        ("nope.yaml", {}, "nope.yaml"),
        (None, {"ISTHMUS_CONFIG": "nope.yaml"}, "which ISTHMUS_CONFIG names"),
        (None, {}, "neither -c, nor ISTHMUS_CONFIG, nor ./isthmus.yaml"),
    ],
)
def test_missing_file_shows_one_to_start_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    environment: dict[str, str],
    says: str,
) -> None:
    """The hint holds a configuration that works when pasted into a file."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match=says) as caught:
        config.load(given, environment)

    config.parse(caught.value.hint.split("\n\n", 1)[1])


def test_a_folder_is_told_from_a_file_that_is_missing(tmp_path: Path) -> None:
    """The hint names the file that would be looked for in it."""
    with pytest.raises(ConfigError, match="is a folder") as caught:
        config.load(tmp_path)
    assert str(tmp_path / "isthmus.yaml") in caught.value.hint


def test_a_pipe_is_a_file_too(tmp_path: Path) -> None:
    """Shells hand over what a command prints as one."""
    reading, writing = os.pipe()
    os.write(writing, SMALLEST.encode())
    os.close(writing)
    try:
        assert config.load(f"/dev/fd/{reading}").links == config.parse(SMALLEST).links
    finally:
        os.close(reading)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are told as such."""
    path = tmp_path / "isthmus.yaml"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match="not UTF-8"):
        config.load(path)


def test_unknown_names_suggest_the_nearest() -> None:
    """Asking for a link or cluster that is not configured names the one that was probably meant."""
    configuration = config.parse(SMALLEST)

    with pytest.raises(ConfigError) as caught:
        configuration.link("east-wst")
    assert caught.value.hint == "Did you mean east-west?"
    with pytest.raises(ConfigError) as caught:
        configuration.cluster("north")
    assert caught.value.hint == "Configured are east, west."
