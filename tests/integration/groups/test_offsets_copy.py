"""A copy of a source's committed positions at the target, read by librdkafka and opened by `cryptography` alone."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from isthmus.kafka.client import Client
from isthmus.kafka.commits import poller
from isthmus.kafka.groups.groups import list_groups
from isthmus.kafka.outcomes import Outcomes
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.loops.loop import LinkView
from isthmus.model.cluster import Secret
from isthmus.model.kafka.group import GroupListing
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.offsetscopy import OffsetsCopy
from isthmus.offsetscopy.loop import OffsetsCopyLoop
from isthmus.topics.plan import LinkPlan
from testing.groups import consumers
from testing.groups.carrying import between
from testing.patience import TERM_S
from testing.records.topics import create
from testing.runs.command import run
from tests.integration.groups.deaf import committed_long_ago, unlisted

pytestmark = pytest.mark.integration

SECRET: Final = "0123456789abcdef0123456789abcdef"
Whose = tuple[str, str, int]


class Stored(NamedTuple):
    """A record as librdkafka has it."""

    offset: int
    key: bytes
    value: bytes | None
    link: bytes


def stored(cluster: LocalCluster, topic: str) -> list[Stored]:
    """All records of the topic's only partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.admin_bootstrap_servers,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Stored] = []
    try:
        while True:
            message = consumer.poll(TERM_S)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            headers: Any = dict(message.headers() or [])
            record: Any = message
            found.append(Stored(record.offset(), record.key(), record.value(), headers["isthmus.link"]))
    finally:
        consumer.close()


def whose(key: bytes) -> Whose:
    """Kafka's OffsetCommitKey, version 1: group, topic, partition."""
    version, size = struct.unpack_from(">hh", key)
    assert version == 1
    group = key[4 : 4 + size].decode()
    (length,) = struct.unpack_from(">h", key, 4 + size)
    begin = 6 + size
    return group, key[begin : begin + length].decode(), struct.unpack(">i", key[begin + length :])[0]


def position(value: bytes) -> tuple[int, str]:
    """Kafka's OffsetCommitValue, version 3: the offset and what the consumer wrote beside it."""
    version, offset, _epoch, size = struct.unpack_from(">hqih", value)
    assert version == 3
    assert len(value) == 16 + size + 8
    return offset, value[16 : 16 + size].decode()


def last(records: list[Stored]) -> dict[Whose, bytes]:
    """What is left of them after compaction."""
    found: dict[Whose, bytes] = {}
    for record in records:
        if record.value is None:
            found.pop(whose(record.key), None)
        else:
            found[whose(record.key)] = record.value
    return found


def opened(key: bytes, record: Stored) -> bytes:
    """An encrypted value, as docs/groups.md says it is made."""
    assert record.value is not None
    assert record.value[:2] == b"\x01\x00"
    return AESGCM(key).decrypt(record.value[2:14], record.value[14:], record.key)


def derived(group: str) -> bytes:
    """The key of a group, as docs/groups.md says it is derived."""
    info = b"isthmus offsets copy 1\x00" + group.encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(SECRET.encode())


async def settled(link: Link) -> tuple[Change, ...]:
    """The loop, run anew: twice, as what the first pass has written the second shall not write again."""
    loop = OffsetsCopyLoop()
    plan = LinkPlan(link=link.name, source=link.source.alias, target=link.target.alias)
    async with Client(link.source) as source, Client(link.target) as target:
        view = LinkView(link=link, source=source, target=target, plan=plan)
        try:
            await loop.apply(view, await loop.look(view))
            return tuple(await loop.apply(view, await loop.look(view)))
        finally:
            await loop.aclose()


class Copied(NamedTuple):
    """Two groups with positions, of which a link selects the first, and the topic that gets the copy."""

    link: Link
    chosen: str
    other: str
    topic: str

    @property
    def name(self) -> str:
        """The topic that they read, and the link."""
        return self.link.name

    def copy(self, way: OffsetsCopy) -> None:
        """Have it copied in this way; nothing is in its way."""
        assert asyncio.run(settled(replace(self.link, groups=replace(self.link.groups, offsets_copy=way)))) == ()


@pytest.fixture
def copied(east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Copied:
    name, chosen, other = topic("copied"), topic("chosen"), topic("other")
    create(east, name)
    consumers.commit(east, {chosen: {(name, 0): 3}, other: {(name, 0): 4}})
    link = between(east, west, [name], [chosen])
    link = replace(link, source=replace(link.source, offsets_copy_secret=Secret(SECRET)))
    return Copied(link, chosen, other, f"__consumer_offsets_{east.cluster_id}")


def objects(text: str) -> list[Any]:
    """JSON objects one behind another, with or without space between them; their names may have spaces too."""
    found: list[Any] = []
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


def of_link(cluster: LocalCluster, copied: Copied) -> list[Stored]:
    """What the link wrote."""
    return [record for record in stored(cluster, copied.topic) if record.link == copied.name.encode()]


def test_positions_are_copied_and_redacted(east: LocalCluster, west: LocalCluster, copied: Copied) -> None:
    """All groups, then those of the link alone, in the form in which Kafka itself writes commits; those that are gone
    or not selected any more are taken back.
    """
    copied.copy(OffsetsCopy.ALL)
    first = of_link(west, copied)
    told = {key: position(value) for key, value in last(first).items()}
    assert told[copied.chosen, copied.name, 0] == (3, "")
    assert told[copied.other, copied.name, 0] == (4, "")
    shown = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", west.admin_bootstrap_servers, "--topic", copied.topic, "--from-beginning"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
        *("--timeout-ms", "300000", "--max-messages", str(len(stored(west, copied.topic)))),
    )
    values = objects(shown.stdout)
    read = {(one["key"]["data"]["group"], one["key"]["data"]["topic"]): one["value"] for one in values}
    assert read[copied.chosen, copied.name]["data"]["offset"] == 3
    assert read[copied.other, copied.name]["data"]["offset"] == 4

    # Whoever runs it next has nothing to write.
    copied.copy(OffsetsCopy.ALL)
    assert of_link(west, copied) == first
    consumers.commit(east, {copied.chosen: {(copied.name, 0): 7}})
    copied.copy(OffsetsCopy.GROUPS)
    told = {key: position(value) for key, value in last(of_link(west, copied)).items()}
    assert told == {(copied.chosen, copied.name, 0): (7, "")}
    consumers.delete_groups(east, copied.chosen)
    copied.copy(OffsetsCopy.GROUPS)
    assert last(of_link(west, copied)) == {}


def test_nothing_is_taken_back_of_groups_that_no_broker_listed(
    west: LocalCluster, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as a broker does not list its groups, and in the moment it does again, their positions are not gone."""
    copied.copy(OffsetsCopy.ALL)
    first = of_link(west, copied)
    link = replace(copied.link, groups=replace(copied.link.groups, offsets_copy=OffsetsCopy.ALL))
    loop, plan = OffsetsCopyLoop(), LinkPlan(link=link.name, source="east", target="west")
    looks: list[Client] = []

    async def listing(client: Client) -> Outcomes[int, tuple[GroupListing, ...]]:
        looks.append(client)
        return await list_groups(client)

    async def scenario() -> None:
        async with Client(link.source) as source, Client(link.target) as target:
            view = LinkView(link=link, source=source, target=target, plan=plan)
            try:
                with monkeypatch.context() as patch:
                    unlisted(patch)
                    await loop.apply(view, await loop.look(view))
                committed_long_ago(monkeypatch)
                monkeypatch.setattr(poller, "list_groups", listing)
                while len(looks) < 2:
                    await loop.apply(view, await loop.look(view))
                    await asyncio.sleep(0.1)
            finally:
                await loop.aclose()

    asyncio.run(scenario())
    assert of_link(west, copied) == first


def test_positions_are_for_who_has_the_key(
    east: LocalCluster, west: LocalCluster, copied: Copied, tmp_path: Path
) -> None:
    """Each value is opened by the key of its own group alone, and holds for its own partition alone; commands print the
    key, and read the copy by it.
    """
    copied.copy(OffsetsCopy.GROUPS)
    copied.copy(OffsetsCopy.ENCRYPTED)
    copied.copy(OffsetsCopy.ENCRYPTED)
    _, sealed = of_link(west, copied)
    assert whose(sealed.key) == (copied.chosen, copied.name, 0)
    assert position(opened(derived(copied.chosen), sealed)) == (3, "")
    for key, record in (
        (derived(copied.other), sealed),
        (derived(copied.chosen), sealed._replace(key=sealed.key[:-1] + b"\x01")),
    ):
        with pytest.raises(InvalidTag):
            opened(key, record)

    (tmp_path / "isthmus.yaml").write_text(yaml.safe_dump(document(east, west, copied)))
    (tmp_path / "secret").write_text(SECRET)
    file = tmp_path / "key"
    file.write_text(isthmus(tmp_path, "key", copied.chosen))
    assert bytes.fromhex(file.read_text()) == derived(copied.chosen)
    asked = ("copy", "west", "--source", east.cluster_id, "--group", copied.chosen, "-o", "json")
    (closed,) = json.loads(isthmus(tmp_path, *asked))
    assert (closed["encrypted"], closed["readable"], closed["position"]) == (True, False, None)
    (found,) = json.loads(isthmus(tmp_path, *asked, "--key-file", str(file)))
    assert (found["position"], found["topic"], found["link"]) == (3, copied.name, copied.name)
    file.write_text(derived(copied.other).hex())
    isthmus(tmp_path, *asked, "--key-file", str(file), code=1)


def document(east: LocalCluster, west: LocalCluster, copied: Copied) -> dict[str, object]:
    """A configuration file of the link."""
    return {
        "clusters": {
            "east": {"bootstrap_servers": east.bootstrap_servers, "offsets_copy_secret": "${file:secret}"},
            "west": {"bootstrap_servers": west.bootstrap_servers},
        },
        "links": [
            {
                "name": copied.name,
                "source": "east",
                "target": "west",
                "topics": {"include": [copied.name]},
                "groups": {"include": [copied.chosen], "offsets_copy": "encrypted"},
            }
        ],
    }


def isthmus(folder: Path, *arguments: str, code: int = 0) -> str:
    """What a command of groups prints, with the configuration of a folder. It never shows the secret."""
    done = run("groups", *arguments, "-c", folder / "isthmus.yaml", cwd=folder)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def test_nothing_is_written_without_a_secret(copied: Copied) -> None:
    """Positions that are to be encrypted are not written in the clear: the loop says what it lacks."""
    bare = replace(copied.link.source, offsets_copy_secret=None)
    groups = replace(copied.link.groups, offsets_copy=OffsetsCopy.ENCRYPTED)
    (left,) = asyncio.run(settled(replace(copied.link, source=bare, groups=groups)))
    assert left.problem is not None
    assert (
        left.problem.hint == "Give clusters.source.offsets_copy_secret in the file of the operator who runs the link."
    )
