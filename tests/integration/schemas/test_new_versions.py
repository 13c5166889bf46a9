"""Versions of schemas that come while a link runs, and do not go with those that it copies."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.local import LocalCluster
from isthmus.model.lane import Lane, LaneState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.formats.decoding import DecodedColumns
from isthmus.spark.transforms.schemawatch import SchemaWatch
from testing.brokers.registry import registry_server
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.running import Running, ends, running

pytestmark = pytest.mark.integration

TRANSFORM = {"decode": {"value": "avro"}, "where": "value.country = 'DE'"}


def schema(**fields: str) -> str:
    """A record with these fields, by their types."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


def file_of(url: str, name: str, transform: dict[str, Any], *servers: str) -> str:
    """A link of all topics that begin with a name."""
    first, second = servers or ("127.0.0.1:1", "127.0.0.1:2")
    included = {"include": [f"{name}*"]}
    return json.dumps(
        {
            "clusters": {
                "east": {"bootstrap_servers": first, "schema_registry": {"url": url}},
                "west": {"bootstrap_servers": second},
            },
            "links": [{"name": "l", "source": "east", "target": "west", "topics": included, "transform": transform}],
        }
    )


class Watched:
    """Looks at the schemas of the topics a and b, as a link does that has begun or not."""

    def __init__(self, spark: SparkSession, link: Link, *, has_begun: bool) -> None:
        self._spark, self._link = spark, link
        self._watch = SchemaWatch(link.source, () if has_begun else link.transforms)

    async def aclose(self) -> None:
        """Close what it has open."""
        await self._watch.aclose()

    async def look(self) -> DecodedColumns:
        """The columns of values."""
        lanes = [
            Lane(
                source_topic=SourceTopic(name),
                source_topic_id=NO_TOPIC_ID,
                target_topic=TargetTopic(name),
                target_topic_id=NO_TOPIC_ID,
                partition=0,
                is_mapped=True,
            )
            for name in ("a", "b")
        ]
        (transform,) = self._link.transforms
        await self._watch.look(
            self._spark.sparkContext,
            self._link.transforms,
            [replace(each, transform=transform.digest) for each in lanes],
        )
        (prepared,) = self._watch.columns
        assert not prepared.problem
        assert prepared.value is not None
        return prepared.value


def look(spark: SparkSession, link: Link, *, has_begun: bool, again: Callable[[], object] | None = None) -> Any:
    """The columns that a link finds, at first and after something else."""

    async def scenario() -> list[DecodedColumns]:
        watched = Watched(spark, link, has_begun=has_begun)
        try:
            found = [await watched.look()]
            if again is not None:
                again()
                found.append(await watched.look())
        finally:
            await watched.aclose()
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("transform", "good", "bad", "says"),
    [
        (TRANSFORM, {"country": "string"}, {"country": "int"}, "INT"),
        ({**TRANSFORM, "drop": ["value.n"]}, {"country": "string"}, {"country": "string", "n": "int"}, "no default"),
        (
            {**TRANSFORM, "set": {"headers.d": "string(date_add(current_date(), value.n))"}},
            {"country": "string", "n": "int"},
            {"country": "string", "n": "long"},
            "BIGINT",
        ),
    ],
)
def test_a_version_that_does_not_go_with_others_is_set_aside(
    spark: SparkSession, transform: dict[str, Any], good: dict[str, str], bad: dict[str, str], says: str
) -> None:
    """In a link that runs, and in one that is started again; a link that copied nothing yet is refused."""
    with registry_server() as server:
        server.store.levels[""] = "NONE"
        if "drop" in transform:
            known = {"name": "n", "type": ["null", "int"], "default": None}
            first = json.loads(schema(**good))
            server.register("b-value", {**first, "fields": [*first["fields"], known]})
        server.register("a-value", schema(**good))
        link = config.parse(file_of(server.url, "a", transform)).link("l")
        before, after = look(spark, link, has_begun=False, again=lambda: server.register("a-value", schema(**bad)))
        (restarted,) = look(spark, link, has_begun=True)
        with pytest.raises(ConfigError):
            look(spark, link, has_begun=False)

    assert not before.aside
    assert after == restarted
    assert after._replace(aside=()) == before
    ((_, reason),) = after.aside
    assert says in reason
    assert "Give its topics a mapping of their own" in reason


def framed(schema_id: int, text: str, *values: object) -> Sequence[Given]:
    """Records of a schema."""
    found = []
    for each in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), each)
        found.append(Given(b"k", b"\0" + schema_id.to_bytes(4) + out.getvalue(), [], topics.SEPTEMBER))
    return found


def test_other_topics_go_on(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """The topic with the new version waits before its first record, and says what to do; also after a restart."""
    stem = topic("versions")
    a, b = f"{stem}.a", f"{stem}.b"
    for name in (a, b):
        topics.create(east, name)

    def is_held(run: Running) -> bool:
        found = run.topic(a)
        return (
            found is not None
            and found.state is LaneState.BLOCKED
            and found.problem is not None
            and "does not go with the schemas that are copied" in found.problem.message
            and "a mapping of their own" in found.problem.message
        )

    async def has(name: str, count: int) -> bool:
        return (await ends(west, name))[0] >= count

    with registry_server() as server:
        server.store.levels[""] = "NONE"
        good, bad = schema(country="string"), schema(country="int")
        ids = {name: server.register(f"{name}-value", good) for name in (a, b)}
        german = {"country": "DE"}
        for name in (a, b):
            topics.produce(east, name, framed(ids[name], good, german))
        file = config.parse(file_of(server.url, stem, TRANSFORM, east.bootstrap_servers, west.bootstrap_servers))

        async def first() -> None:
            async with running(file, spark) as run:
                await run.until(lambda: has(a, 1))
                await run.until(lambda: has(b, 1))
                new = server.register(f"{a}-value", bad)
                topics.produce(east, a, framed(new, bad, {"country": 49}))
                await run.until(lambda: is_held(run))
                topics.produce(east, b, framed(ids[b], good, german))
                await run.until(lambda: has(b, 2))
                await run.end()

        async def second() -> None:
            async with running(file, spark) as run:
                topics.produce(east, b, framed(ids[b], good, german))
                await run.until(lambda: has(b, 3))
                await run.until(lambda: is_held(run))
                await run.end()

        asyncio.run(first())
        asyncio.run(second())
    assert [len(part) for part in oracle.records(west.bootstrap_servers, a)] == [1]
    assert [len(part) for part in oracle.records(west.bootstrap_servers, b)] == [3]
