"""The real MirrorMaker 2 with transforms, and the same file imported and run: the same records are at the target."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

import isthmus
from isthmus.cli.setup.imports import import_
from testing.records import topics
from testing.records.flows import Flow, contents, create
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import ends
from tests.integration.mirrormaker.java import JavaMirror, until

pytestmark = pytest.mark.integration

KAFKAS = "org.apache.kafka.connect.transforms"


def chained(flow: Flow, chain: str, **settings: str) -> dict[str, str]:
    """The settings of a flow with a chain."""
    prefix = f"{flow.source.alias}->{flow.target.alias}"
    named = {key.replace("__", "."): value.replace("K.", f"{KAFKAS}.") for key, value in settings.items()}
    return {f"{prefix}.{key}": value for key, value in {"transforms": chain, **named}.items()}


def mirror_of(flow: Flow, folder: Path, settings: dict[str, Any]) -> JavaMirror:
    return JavaMirror(flow, folder, **settings)


def run_imported(file: Path, spark: SparkSession) -> None:
    """Import a file and run its link, into names of its own."""
    made = file.with_name("isthmus.yaml")
    import_(file, to=made, force=True)
    document: dict[str, Any] = yaml.safe_load(made.read_text())
    (link,) = document["links"]
    link["topics"]["naming"] = {"target_prefix": "ours."}
    for key in ("mm2", "groups"):
        link.pop(key, None)
    made.write_text(yaml.safe_dump(document))
    with isthmus.open(made, spark=spark, declared=False) as fabric:
        outcome = fabric.run(until="caught-up")
    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)


def fill(flow: Flow, topic: str, given: Sequence[Given]) -> None:
    create(flow.source, topic, partitions=1)
    topics.produce(flow.source.cluster, topic, given)


def test_records_are_those_of_mirrormaker_2(flow: Flow, spark: SparkSession, tmp_path: Path) -> None:
    """Left out by headers, tombstones and names; without headers that are dropped. Its predicates see names at the
    target.
    """
    headers: list[list[tuple[str, str | bytes | None]]] = [[], [("internal", b"1")], [("trace", b"t"), ("kept", b"k")]]
    given = [Given(b"k%d" % n, None if n % 7 == 0 else b"%d" % n, headers[n % 3], SEPTEMBER + n) for n in range(60)]
    names = [f"{flow.stem}-{each}" for each in ("orders", "private", "table")]
    for name in names:
        fill(flow, name, given)
    settings = chained(
        flow,
        "hide, private, gone, trace",
        transforms__hide__type="K.Filter",
        transforms__hide__predicate="internal",
        transforms__private__type="K.Filter",
        transforms__private__predicate="private",
        transforms__gone__type="K.Filter",
        transforms__gone__predicate="gone",
        transforms__trace__type="K.DropHeaders",
        transforms__trace__headers="trace",
        transforms__trace__predicate="table",
        transforms__trace__negate="true",
        predicates="internal, private, gone, table",
        predicates__internal__type="K.predicates.HasHeaderKey",
        predicates__internal__name="internal",
        predicates__private__type="K.predicates.TopicNameMatches",
        predicates__private__pattern=".*-private",
        predicates__gone__type="K.predicates.RecordIsTombstone",
        predicates__table__type="K.predicates.TopicNameMatches",
        predicates__table__pattern=f"{flow.source.alias}\\.{flow.stem}-table",
    )
    with mirror_of(flow, tmp_path, settings) as theirs:
        theirs.start()
        kept = sum(n % 3 != 1 and n % 7 != 0 for n in range(60))
        until(lambda: all(end_of(flow, each) == kept for each in (names[0], names[2])), lambda: theirs.log[-2000:])
    run_imported(theirs.file, spark)
    for name in names:
        found, theirs_found = (
            contents(flow.target, each, partitions=1) for each in (f"ours.{name}", flow.remote(name))
        )
        assert found == theirs_found
        assert len(found[0]) == (0 if name == names[1] else kept)


def test_fields_are_masked_where_mirrormaker_2_fails(
    flow: Flow, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its task ends at the first record, even with JsonConverter, as the import says. The link masks JSON."""
    name = f"{flow.stem}-orders"
    fill(flow, name, [Given(b"k", b'{"id":1,"ssn":"123","n":1.50}', [], SEPTEMBER), Given(b"k", None, [], SEPTEMBER)])
    settings = chained(
        flow,
        "mask",
        transforms__mask__type="K.MaskField$Value",
        transforms__mask__fields="ssn, n",
        value__converter="org.apache.kafka.connect.json.JsonConverter",
        value__converter__schemas__enable="false",
    )
    with mirror_of(flow, tmp_path, settings) as theirs:
        theirs.start()
        until(lambda: "Only Struct objects supported for [mask fields]" in theirs.log, lambda: theirs.log[-2000:])
        assert end_of(flow, name) <= 0
    run_imported(theirs.file, spark)
    assert "Only Struct objects supported" in " ".join(capsys.readouterr().out.split())
    (found,) = contents(flow.target, f"ours.{name}", partitions=1)
    assert [(seen.key, seen.value) for seen in found] == [(b"k", b'{"id":1,"ssn":"","n":0.0}'), (b"k", None)]


def end_of(flow: Flow, topic: str) -> int:
    return asyncio.run(ends(flow.target.cluster, flow.remote(topic)))[0]
