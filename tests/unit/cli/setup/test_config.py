"""`isthmus config`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trustme
import typer
import yaml

from isthmus import config
from isthmus.cli.clusters.treedeclaring import list_trees
from isthmus.cli.links.link import list_links
from isthmus.cli.links.status import status
from isthmus.cli.output import OutputFormat
from isthmus.cli.setup.config import check, load_configuration, load_with_declared, resolve_configuration, show
from isthmus.config.reading.places import SMALLEST
from isthmus.errors import ConfigError, Unreachable

Capture = pytest.CaptureFixture[str]
SECURED = """\
clusters:
  east:
    bootstrap_servers: a:1
    security: {mechanism: PLAIN, username: isthmus, password: hunter2, tls: {ca_file: ca.pem}}
  west: {bootstrap_servers: "b:1,c:2"}
links:
  - {name: east-west, source: east, target: west, topics: {include: [x, "/y+/"], exclude: ["x*"]}}
spark: {conf: {spark.ssl.keyPassword: hunter3, spark.ui.enabled: true}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration file with secrets in it, and the certificate it names."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    written = tmp_path / "isthmus.yaml"
    written.write_text(SECURED, encoding="utf-8")
    return written


def test_shown_configuration_can_be_read_again() -> None:
    """What `show -o yaml` prints is a configuration file that means the same."""
    trees = "trees: [{name: t, clusters: [east, west], topics: ['t.*'], exclude: [t.x], flags: header}]\n"
    properties = "properties: {send.buffer.bytes: 65536, ssl.enabled.protocols: TLSv1.3}, "
    for text in (
        SMALLEST,
        SMALLEST.replace("topics:", "mm2: {offset_syncs: source, heartbeats: true}, topics:"),
        SMALLEST + trees,
        SMALLEST.replace("topics:", "properties: {send.buffer.bytes: 65536, source.send.buffer.bytes: -1}, topics:"),
        SMALLEST.replace("bootstrap_servers", f"{properties}bootstrap_servers", 1),
    ):
        configuration = config.parse(text)

        assert config.parse(yaml.safe_dump(resolve_configuration(configuration))) == configuration


@pytest.mark.parametrize("output", OutputFormat)
def test_show_masks_secrets(path: Path, capsys: Capture, output: OutputFormat) -> None:
    """No output format shows a password, be it ours or one of Spark's properties."""
    show(path, output)

    out, err = capsys.readouterr()
    is_values = output not in (OutputFormat.NAME, OutputFormat.HELP)
    assert ("***" in out, "isthmus" in out) == (is_values, is_values)
    assert "hunter" not in out + err


def test_show_has_every_key_in_the_form_of_the_file(path: Path, capsys: Capture) -> None:
    """Defaults are filled in, and names are the file's."""
    show(path, OutputFormat.JSON)

    shown = json.loads(capsys.readouterr().out)
    assert shown["clusters"]["east"]["security"]["protocol"] == "SASL_SSL"
    assert shown["clusters"]["west"]["bootstrap_servers"] == ["b:1", "c:2"]
    assert shown["links"][0]["topics"] == {
        "include": ["x", "/y+/"],
        "exclude": ["x*"],
        "naming": "identity",
        "offsets": "same",
        "start": "earliest",
        "remote": "copy",
        "replication_factor": None,
    }
    assert shown["links"][0]["on_data_gap"] == "stop"
    assert shown["spark"]["conf"]["spark.ui.enabled"] == "true"


def test_table_shows_dotted_paths(path: Path, capsys: Capture) -> None:
    """The table names values as the error messages do."""
    show(path, OutputFormat.TABLE)

    out = capsys.readouterr().out
    assert "clusters.east.security.tls.ca_file" in out
    assert "links[0].topics.include" in out


def test_check_tells_what_is_configured_and_what_is_unwise(path: Path, capsys: Capture) -> None:
    """A sound file gives its clusters and links, and the warnings as results."""
    check(path, OutputFormat.JSON)

    out, err = capsys.readouterr()
    checked = json.loads(out)
    assert (checked["clusters"], checked["links"]) == (["east", "west"], ["east-west"])
    assert "clusters.east.security.password" in checked["warnings"][0]
    assert err == ""


def test_other_commands_warn_on_stderr(path: Path, capsys: Capture) -> None:
    """Results and warnings do not mix."""
    assert load_configuration(path).link("east-west").target.alias == "west"

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Warning: ")


def test_links_of_a_cluster_that_is_away_are_not_known(path: Path, capsys: Capture) -> None:
    """Where a file has no links and its cluster does not answer, no command reports that there are none, or that all
    is well.
    """
    path.write_text("clusters: {east: {bootstrap_servers: '127.0.0.1:1'}}\nlinks: []\n", encoding="utf-8")

    with pytest.raises(typer.Exit) as ended:
        status(path=path)
    with pytest.raises(Unreachable, match="it is unknown whether a link mirrors a topic orders"):
        status(topic=["orders"], path=path)
    with pytest.raises(typer.Exit) as listed:
        list_links(path=path)
    with pytest.raises(typer.Exit) as trees:
        list_trees(path=path)
    with pytest.raises(ConfigError, match="no link named orders") as unknown:
        load_with_declared(path).link("orders")

    told = capsys.readouterr().err
    assert (ended.value.exit_code, listed.value.exit_code, trees.value.exit_code) == (1, 1, 1)
    assert [line.partition(": ")[0] for line in told.splitlines()].count("the declarations on east are not known") == 2
    assert "no link is known, and the declarations on east are not known: " in told
    assert "there are no links" not in told
    assert "declarations on east are not known" in unknown.value.hint


def test_check_tells_of_a_certificate_that_is_missing(path: Path, tmp_path: Path) -> None:
    """By its place in the configuration, file and cluster; whoever only loads the configuration is not kept from it."""
    file = tmp_path / "ca.pem"
    file.unlink()

    with pytest.raises(ConfigError) as told:
        check(path, OutputFormat.JSON)
    reason = "which cannot be read: No such file or directory"
    assert told.value.message == f"{path}: clusters.east.security.tls.ca_file names {file}, {reason}"
    assert told.value.field == "clusters.east.security.tls.ca_file"
    assert config.load(path).cluster("east").security.tls.ca_file == str(file)
