"""`isthmus import`."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from isthmus import config
from isthmus.cli.output import OutputFormat
from isthmus.cli.setup import takeover
from isthmus.cli.setup.imports import import_
from isthmus.errors import ConfigError, GateNotMet
from isthmus.interop.links import OffsetsChoice
from testing.values.samples import SHIPPED, pair

Capture = pytest.CaptureFixture[str]
SECRET = pair(
    "a.security.protocol = SASL_PLAINTEXT",
    "a.sasl.mechanism = PLAIN",
    'a.sasl.jaas.config = x.PlainLoginModule required username="me" password="hunter2";',
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A file with a secret in it."""
    path = tmp_path / "mm2.properties"
    path.write_text(SECRET)
    return path


def test_without_to_the_configuration_goes_to_stdout(given: Path, capsys: Capture) -> None:
    """stdout is the file alone, the report is on stderr, and nothing is written."""
    import_(given)

    out, err = capsys.readouterr()
    assert yaml.safe_load(out)["links"][0]["name"] == "a-b"
    assert "sync.topic.acls.enabled" in err
    assert "Not written without --to: isthmus.secrets/a.password" in err
    assert "hunter2" not in out + err
    assert [path.name for path in given.parent.iterdir()] == ["mm2.properties"]


@pytest.mark.parametrize("output", OutputFormat)
def test_with_to_files_are_written(given: Path, capsys: Capture, output: OutputFormat) -> None:
    """The configuration can be loaded, the secret is for its owner alone, and the report is the result."""
    made = given.parent / "made.yaml"

    import_(given, to=made, output=output)

    out, err = capsys.readouterr()
    configuration = config.load(made)
    password = configuration.clusters[0].security.password
    assert password is not None
    assert password.reveal() == "hunter2"
    assert configuration.warnings == ()
    assert stat.S_IMODE((given.parent / "made.secrets" / "a.password").stat().st_mode) == 0o600
    told = {OutputFormat.NAME: str(made), OutputFormat.HELP: "notices[].why: text"}
    assert told.get(output, "sync.topic.acls.enabled") in out
    assert "hunter2" not in out + err


def test_the_report_has_stable_keys(given: Path, capsys: Capture) -> None:
    """Programs read what became of what."""
    made = given.parent / "made.yaml"
    import_(given, to=made, output=OutputFormat.JSON)

    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["file", "form", "clusters", "links", "written", "notices"]
    assert (report["form"], report["clusters"], report["links"]) == ("mm2.properties", ["a", "b"], ["a-b"])
    assert report["written"] == [str(given.parent / "made.secrets" / "a.password"), str(made)]
    assert set(report["notices"][0]) == {"impact", "key", "value", "line", "why", "todo"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--take-over needs the configuration that goes on with it"),
        ({"dry_run": True, "offsets": OffsetsChoice.SAME}, "does not have the offsets of the source"),
    ],
)
def test_a_take_over_that_cannot_be_is_refused(given: Path, options: dict[str, Any], message: str) -> None:
    """Before any cluster is asked, and before anything is written."""
    with pytest.raises(ConfigError, match=message):
        import_(given, take_over=True, **options)
    assert [path.name for path in given.parent.iterdir()] == ["mm2.properties"]


def test_what_is_incomplete_is_not_taken_over(tmp_path: Path, capsys: Capture) -> None:
    """The configuration is written, and what has to be done is told; no cluster is asked."""
    path, made = tmp_path / "mm2.properties", tmp_path / "made.yaml"
    path.write_text(pair("a->b.replication.policy.class = com.example.Own"))
    with pytest.raises(typer.Exit):
        import_(path, to=made, take_over=True)
    out, err = capsys.readouterr()
    assert "offsets: mapped" in made.read_text()
    assert "Nothing was taken over yet" in " ".join((out + err).split())


def test_a_take_over_that_fails_leaves_no_configuration(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with it would copy everything once more; a file that was there before stays."""
    made = given.parent / "made.yaml"

    def refuse(*_: object) -> None:
        assert made.exists()
        raise GateNotMet("MirrorMaker 2 has not stopped")

    monkeypatch.setattr(takeover, "take_over_all", refuse)
    with pytest.raises(GateNotMet):
        import_(given, to=made, take_over=True)
    assert [path.name for path in given.parent.iterdir()] == ["mm2.properties"]
    import_(given, to=made)
    with pytest.raises(GateNotMet):
        import_(given, to=made, take_over=True)
    assert made.exists()


def test_what_is_there_is_replaced_only_with_force(given: Path) -> None:
    """An import never costs anybody a file."""
    made = given.parent / "made.yaml"
    made.write_text("mine")

    with pytest.raises(ConfigError, match="there already"):
        import_(given, to=made)
    assert made.read_text() == "mine"

    import_(given, to=made, force=True)
    assert config.load(made).links


def test_what_is_imported_is_never_replaced(given: Path) -> None:
    """Not even with --force."""
    with pytest.raises(ConfigError, match="is the imported file"):
        import_(given, to=given, force=True)


def test_a_dry_run_writes_nothing(given: Path, capsys: Capture) -> None:
    """Even with --to, and also where something is there already."""
    made = given.parent / "made.yaml"
    made.write_text("mine")

    import_(given, to=made, dry_run=True)

    assert made.read_text() == "mine"
    assert "made.secrets/a.password" in capsys.readouterr().out


def test_something_to_be_done_is_an_exit_code(given: Path, capsys: Capture) -> None:
    """Scripts see that the file cannot be run yet; it is written all the same."""
    given.write_text(pair("a.security.protocol = SASL_SSL"))
    made = given.parent / "made.yaml"

    with pytest.raises(typer.Exit) as ended:
        import_(given, to=made)

    assert ended.value.exit_code == 1
    assert "1 thing to be done" in capsys.readouterr().err
    assert "# mechanism is missing" in made.read_text()


def test_the_exit_code_does_not_hang_on_where_the_file_goes(given: Path, capsys: Capture) -> None:
    """What keeps the configuration from being used is looked for whether or not it is written."""
    (given.parent / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nbroken\n")
    given.write_text(pair("a.security.protocol = SSL", "a.ssl.truststore.location = ca.pem"))

    for to in (None, given.parent / "made.yaml"):
        with pytest.raises(typer.Exit) as ended:
            import_(given, to=to, output=OutputFormat.WIDE)
        assert ended.value.exit_code == 1
        out, err = capsys.readouterr()
        assert "holds no certificate in PEM form" in (out if to else err)
        assert "/isthmus-" not in out + err


def test_certificates_that_are_not_there_are_told(given: Path, capsys: Capture) -> None:
    """What keeps the configuration from being used on this machine is looked for as soon as it is written."""
    (given.parent / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nbroken\n")
    given.write_text(pair("a.security.protocol = SSL", "a.ssl.truststore.location = ca.pem"))

    with pytest.raises(typer.Exit):
        import_(given, to=given.parent / "made.yaml", output=OutputFormat.WIDE)

    assert "holds no certificate in PEM form" in capsys.readouterr().out


def test_the_shipped_file_needs_nothing(tmp_path: Path) -> None:
    """What Kafka ships is imported as it is, and can be used as it comes out."""
    (tmp_path / "mm2.properties").write_text(SHIPPED.replace("_host", "-host"))

    import_(tmp_path / "mm2.properties", to=tmp_path / "isthmus.yaml")

    assert [link.name for link in config.load(tmp_path / "isthmus.yaml").links] == ["A-B", "B-A"]
