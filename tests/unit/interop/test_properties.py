"""mm2.properties, read as Java reads it."""

from __future__ import annotations

import re

import pytest

from isthmus.errors import ConfigError
from isthmus.interop.deployment import Impact
from isthmus.interop.properties import read_properties
from isthmus.interop.reading import BYTES_MAX, read_deployment
from testing.values.samples import SHIPPED, pair, read


def test_the_file_that_kafka_ships_is_understood() -> None:
    """Two clusters, a flow each way, and what is said for all of them."""
    deployment = read(SHIPPED)

    assert [flow.name for flow in deployment.flows] == ["A->B", "B->A"]
    assert deployment.clusters["A"]["bootstrap.servers"].value == "A_host1:9092, A_host2:9092, A_host3:9092"
    assert {flow.settings["replication.factor"].value for flow in deployment.flows} == {"1"}
    assert deployment.flows[0].settings["topics"].line == 10


def test_values_of_a_flow_win_over_those_of_all() -> None:
    """What is said without a flow holds for flows that do not say it themselves."""
    (flow,) = read(pair("topics = all", "a->b.topics = own", "groups = g")).flows

    assert (flow.settings["topics"].value, flow.settings["groups"].value) == ("own", "g")


def test_java_escapes_and_continued_lines_are_read() -> None:
    """Escapes, continued lines, colons and line ends of any kind are those of java.util.Properties."""
    text = pair("a->b.topics : caf\\u00e9, \\", "   tab\\tled", "a.client.id=x\\=y").replace("\n", "\r\n")
    deployment = read(text)

    assert deployment.flows[0].settings["topics"].value == "café, tab\tled"
    assert deployment.clusters["a"]["client.id"].value == "x=y"
    assert deployment.clusters["a"]["client.id"].line == 7


def test_bytes_are_latin_1_as_in_java() -> None:
    """Whatever wrote the file, Java reads ISO 8859-1; a mark of UTF-8 before it does no harm."""
    deployment = read_properties(b"\xef\xbb\xbf" + pair("a->b.topics = \xe9").encode("latin-1"), "mm2.properties")

    assert deployment.flows[0].settings["topics"].value == "é"


def test_values_are_trimmed_as_kafka_trims_them() -> None:
    """Blanks and control characters of ASCII at the ends are none of a value; other blanks may belong to a secret."""
    deployment = read(pair("a.client.id = x\\u0001\\t", "b.client.id = x\\u00a0 "))

    assert [deployment.clusters[alias]["client.id"].value for alias in "ab"] == ["x", "x\xa0"]


def test_the_last_of_two_alike_counts() -> None:
    """A key that is written twice has its last value, and is named with both lines."""
    deployment = read(pair("a->b.topics = first", "a->b.topics = last", "emit.heartbeats.enabled = false"))

    assert deployment.flows[0].settings["topics"].value == "last"
    (notice,) = deployment.notices
    assert (notice.impact, notice.key, notice.line) == (Impact.CHANGED, "a->b.topics", 6)
    assert "line 5" in notice.why


def test_a_comment_behind_a_value_is_told() -> None:
    """To Java it is part of the value; what may be a secret is not told of."""
    found = read(pair("a->b.topics = orders # all of them", "a.ssl.key.password = x #1", "a->b.groups = a#b"))

    (notice,) = [each for each in found.notices if "#" in each.why]
    assert (notice.key, notice.line, notice.value) == ("a->b.topics", 5, "")


def test_aliases_may_begin_alike() -> None:
    """A key belongs to the longest alias it begins with."""
    text = "clusters=a,a.b\na.bootstrap.servers=x:1\na.b.bootstrap.servers=y:1\na->a.b.enabled=true\na->a.b.topics=t\n"
    deployment = read(text)

    assert deployment.clusters["a.b"]["bootstrap.servers"].value == "y:1"
    assert deployment.clusters["a"].keys() == {"bootstrap.servers"}
    assert deployment.flows[0].settings["topics"].value == "t"


def test_what_was_cut_off_a_secret_is_not_shown() -> None:
    """A line without a backslash before it becomes a key: only what looks like a setting is named."""
    text = pair("a.ssl.keystore.key = -----BEGIN", "MIIEvQIBADANBgkqhkiG9w0BAQEF", "hunter2", "topcis = x")

    assert [notice.key for notice in read(text).notices][:3] == ["line 6", "line 7", "topcis"]
    assert "Did you mean topics?" in read(text).notices[2].todo


@pytest.mark.parametrize(
    ("lines", "todo"),
    [
        ((), "{name: b-a, source: b, target: a, topics: {naming: mm2}, mm2: {heartbeats: true}}"),
        (("b->a.enabled = false", "replication.policy.separator = _"), 'topics: {naming: {mm2: {separator: "_"}}}'),
        (("b->a.enabled = false", "emit.heartbeats.enabled = True"), "mm2: {heartbeats: true}"),
        (("b->a.enabled = false", "emit.heartbeats.enabled = false"), None),
        (("b->a.topics = x", "b->a.emit.heartbeats.enabled = false"), None),
        (("b->a.enabled = false", "replication.policy.separator = a"), None),
        (("b->a.enabled = true",), None),
    ],
)
def test_heartbeats_of_a_flow_that_is_not_enabled_are_lost(lines: tuple[str, ...], todo: str | None) -> None:
    """MirrorMaker 2 writes them for the flow in the other direction: the link that does so is told, once, unless they
    are off, or cannot be told by their names. Between clusters without a flow nobody misses them.
    """
    text = pair(*lines).replace("a, b", "a, b, d")
    lost = [notice for notice in read(text).notices if notice.impact is Impact.LOST]

    assert [notice.key for notice in lost] == ([] if todo is None else ["b->a.enabled"])
    assert all(todo is None or todo in notice.todo for notice in lost)
    assert [notice.line for notice in lost] == ([] if todo is None else [5 if lines else None])


def test_what_has_no_effect_is_told() -> None:
    """Misspelt keys, flows of unknown clusters, clusters without a flow: named, never an error."""
    silent = "emit.heartbeats.enabled = false"
    text = pair("toppics = x", "a->c.topics = y", "b->a.topics = z", "consumer.fetch.max.bytes = 1", silent)
    text = text.replace("a, b", "a, b, d")
    notices = {notice.key: notice.impact for notice in read(text).notices}

    assert notices == {
        "toppics": Impact.UNKNOWN,
        "a->c.topics": Impact.UNKNOWN,
        "b->a.enabled": Impact.UNNEEDED,
        "consumer.fetch.max.bytes": Impact.UNNEEDED,
        "clusters": Impact.UNNEEDED,
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (pair("a->c.enabled = true"), "mm2.properties:5: a->c.enabled is true, but clusters does not name", "a, b"),
        (pair("b->a.enabled = yes"), "mm2.properties:5: b->a.enabled must be true or false", "true"),
        (pair("a -> b.topics = x"), "mm2.properties:5: a -> ... has spaces around the arrow", "a->..."),
        (pair("x = \\u00g1"), "mm2.properties:5: this line or one below has a broken \\u escape", "four hexadecimal"),
        ("clusters = a\n", "mm2.properties:1: clusters has to name two clusters", "clusters = a, b"),
        ("clusters = a, a\n", "mm2.properties:1: clusters names a cluster twice", "clusters = a, b"),
        ("clusters = a, b\n", "enables no flow", "a->b.enabled = true"),
        ("a = b\n", "has no line clusters", "connect-mirror-maker.sh"),
        ("# nothing\n", "has no settings", "connect-mirror-maker.sh"),
        ("", "is empty", "connect-mirror-maker.sh"),
        ("\xfe\xed\0\0", "is no text", "connect-mirror-maker.sh"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, message: str, hint: str) -> None:
    """The error names the key and the line, and says what to do."""
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read(text)

    assert hint in caught.value.hint


def test_a_file_that_is_too_large_is_refused() -> None:
    """Whatever it is, it is no configuration."""
    with pytest.raises(ConfigError, match="more than 1 MiB"):
        read_deployment(b"#" * (BYTES_MAX + 1), "mm2.properties")
