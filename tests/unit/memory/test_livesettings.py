"""Limits and `mm2` of a link of the file that an operator has set beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from isthmus.config.live import in_plain_values, with_settings
from isthmus.errors import ConfigError, Unreachable
from isthmus.ledger.documents.kinds import SettingsDocument, decode_document, encode_document
from isthmus.memory.livesettings import LiveSettings, settings_of
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.link import Limits, Link
from isthmus.model.mirrormaker import MirrorMakerSettings, MirrorMakerTopics, SyncsPlace
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain
from testing.verbs import AsyncLinkOperations

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse("a"),)))
DECLARED = Configuration(clusters=(EAST, WEST), links=(LINK,), declared=frozenset({"l"}))
SAID = {"limits.bytes_per_s": "10 MiB", "mm2.checkpoints": True, "mm2.offset_syncs": "target"}


def test_what_is_set_takes_the_place_of_what_is_written() -> None:
    """Key by key; sizes are written as in the file, and null is the default."""
    written = replace(LINK, limits=Limits(bytes_per_s=7, bytes_in_flight=9))
    assert with_settings(written, {}) is written
    found = with_settings(written, SAID)
    assert found.limits == Limits(bytes_per_s=10 << 20, bytes_in_flight=9)
    assert found.mm2 == MirrorMakerSettings(checkpoints=True, offset_syncs=SyncsPlace.TARGET)
    assert with_settings(written, {"limits.bytes_per_s": None}).limits.bytes_per_s is None
    assert with_settings(found, SAID) is found
    assert in_plain_values(found)["mm2.offset_syncs"] == "target"


def test_topics_of_mirror_maker_go_by_what_is_set() -> None:
    """Internal topics are left out as soon as anything is written for its tools, and what of heartbeats is mirrored
    stays as the file has it.
    """
    topics = with_settings(LINK, SAID).topics.mirror_maker
    assert topics == MirrorMakerTopics(names=LINK.mm2_names)
    off = {"limits.bytes_per_s": None, "mm2.checkpoints": False, "mm2.offset_syncs": False}
    assert with_settings(with_settings(LINK, SAID), off) == LINK
    beating = MirrorMakerTopics(names=LINK.mm2_names, heartbeats=True)
    written = replace(LINK, mm2=MirrorMakerSettings(heartbeats=True), topics=replace(LINK.topics, mirror_maker=beating))
    assert with_settings(written, SAID).topics.mirror_maker == beating


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limits.bytes": 1}, "limits.bytes cannot be set"),
        ({"limits": {"bytes_per_s": 1}}, "limits cannot be set"),
        ({"topics.include": ["x"]}, "topics.include cannot be set"),
        ({"mm2.heartbeats": True}, "mm2.heartbeats cannot be set"),
        ({"limits.bytes_per_s": 0}, "limits.bytes_per_s "),
        ({"limits.bytes_per_s": "much"}, "limits.bytes_per_s "),
        ({"limits.bytes_in_flight": [1]}, "limits.bytes_in_flight "),
        ({"mm2.checkpoints_interval_s": 0}, "mm2.checkpoints_interval_s "),
        ({"mm2.checkpoints": "yes"}, "mm2.checkpoints "),
        ({"mm2.offset_syncs": "both"}, "mm2.offset_syncs "),
    ],
)
def test_what_cannot_be_set_is_refused(settings: dict[str, Any], message: str) -> None:
    """With the link and the key, and a hint."""
    with pytest.raises(ConfigError, match=f"^link l: {message}") as told:
        with_settings(LINK, settings)
    assert told.value.hint


def test_names_that_would_not_tell_where_an_alias_ends_are_refused() -> None:
    """As in the file."""
    dotted = replace(LINK, source=replace(EAST, alias="east.one"))
    with pytest.raises(ConfigError, match=r"alias east\.one holds a dot"):
        with_settings(dotted, SAID)
    assert with_settings(dotted, {"limits.bytes_per_s": 5}).limits.bytes_per_s == 5


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (Configuration(clusters=(EAST, WEST), links=()), "l"),
        (DECLARED, "is declared"),
    ],
)
def test_links_that_the_file_has_not_are_refused(configuration: Configuration, message: str) -> None:
    """Before any cluster is asked: these have no address that answers."""
    with pytest.raises(ConfigError, match=message):
        asyncio.run(AsyncLinkOperations(configuration, "l").change_settings({"limits.bytes_per_s": 5}))


def test_what_was_set_before_a_link_was_declared_can_be_taken_back() -> None:
    """It holds still, and nothing else would end it: the ledger is asked for it, which does not answer here."""
    one = AsyncLinkOperations(DECLARED, "l")
    for taken_back in (one.change_settings({}, reset=True), one.change_settings({}, unset=["limits.bytes_per_s"])):
        with pytest.raises(Unreachable):
            asyncio.run(taken_back)


def test_what_is_set_is_not_taken_back_by_the_same_word() -> None:
    """Whoever says both is asked what is meant, before any cluster is."""
    one = AsyncLinkOperations(Configuration(clusters=(EAST, WEST), links=(LINK,)), "l")
    both = one.change_settings({"limits.bytes_per_s": 5}, unset=["limits.bytes_per_s"])
    with pytest.raises(ConfigError, match=r"limits\.bytes_per_s is both set and unset"):
        asyncio.run(both)


def test_a_document_says_what_is_set_and_by_whom() -> None:
    """Through the ledger and back; what somebody else wrote into it, or the file no longer allows, is passed over."""
    document = SettingsDocument(link="l", settings=(("limits.bytes_per_s", "5"),), since_ms=1000, by="ada@host")
    assert decode_document(document.key, encode_document(document)) == document
    found = settings_of(LINK, {document.key: document})
    assert found == LiveSettings(changed={"limits.bytes_per_s": 5}, since_ms=1000, by="ada@host")
    told = plain(found.in_force(LINK))
    assert (told["settings"]["limits.bytes_per_s"], told["written"]) == (5, {"limits.bytes_per_s": None})
    assert (told["changed"], told["by"]) == (["limits.bytes_per_s"], "ada@host")
    assert plain(found.summarize())["changed"] == {"limits.bytes_per_s": 5}
    assert LiveSettings().summarize() is None
    for broken in (("limits.bytes_per_s", "-1"), ("limits.bytes_per_s", "{"), ("name", '"x"')):
        assert not settings_of(LINK, {document.key: replace(document, settings=(broken,))}).changed
