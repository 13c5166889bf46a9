"""What the file says is to be written for tools of MirrorMaker 2."""

from __future__ import annotations

import pytest

from isthmus import config
from isthmus.model.link import Link
from isthmus.model.mirrormaker import MirrorMakerSettings, SyncsPlace
from isthmus.model.naming import SourceTopic
from tests.unit.config.refusing import linked, refusal

TOPICS = "topics: {include: [orders], naming: mm2}"


def links(*settings: str, topics: str = TOPICS) -> tuple[Link, ...]:
    """Links from a to b with these settings."""
    text = linked(*(f"name: l{n}, source: a, target: b, {topics}, {each}" for n, each in enumerate(settings)))
    return config.parse(text, environment={}).links


def test_true_is_all_of_it_at_the_target() -> None:
    """The short form writes everything, and nothing at the source; its numbers are MirrorMaker 2's."""
    (link,) = links("mm2: true, groups: {include: [g]}")

    assert link.mm2 == MirrorMakerSettings(offset_syncs=SyncsPlace.TARGET, checkpoints=True, heartbeats=True)
    assert (link.mm2.offset_lag_max, link.mm2.checkpoints_interval_s, link.mm2.heartbeats_interval_s) == (
        100,
        60.0,
        1.0,
    )
    assert link.topics.matches(SourceTopic("heartbeats"))


@pytest.mark.parametrize("written", ["mm2: false", "mm2: {}", "mm2: {offset_syncs: off}", "mm2: {offset_lag_max: 5}"])
def test_nothing_is_written_unless_it_is_asked_for(written: str) -> None:
    """Without a switch that is on the link is as any other. YAML takes a plain `off` for false."""
    (link,) = links(written)

    assert not link.mm2.is_on
    assert link.topics.mirror_maker is None


def test_one_link_mirrors_the_heartbeats_of_a_cluster() -> None:
    """Of two links between the same clusters the first one: each topic has one writer."""
    first, second = links("mm2: true", "mm2: true", topics="topics: {include: [], naming: mm2}")

    assert first.topics.matches(SourceTopic("heartbeats"))
    assert not second.topics.matches(SourceTopic("heartbeats"))
    assert second.mm2.heartbeats


def test_heartbeats_are_written_without_mirroring_those_of_the_source() -> None:
    """Unless they are selected, and then under the source's alias: what the link writes at the target is its own."""
    alone = "mm2: {heartbeats: true, heartbeats_replication: false}"
    first, second = links(alone, "mm2: true", topics="topics: {include: [], naming: mm2}")
    (kept,) = links(alone, topics='topics: {include: ["*"]}')

    assert first.mm2.heartbeats
    assert not first.topics.matches(SourceTopic("heartbeats"))
    assert second.topics.matches(SourceTopic("heartbeats"))
    assert kept.topics.name_topics(["heartbeats", "orders"]).sources == {
        "a.heartbeats": "heartbeats",
        "orders": "orders",
    }


def test_the_separator_is_that_of_the_naming() -> None:
    """Names are made with the separator of topics that are named as MirrorMaker 2 names them, else with a dot."""
    (dashed,) = links("mm2: true", topics="topics: {include: [x], naming: {mm2: {separator: '__'}}}")
    (kept,) = links("mm2: true", topics="topics: {include: [x]}")

    assert dashed.mm2_names.checkpoints == "a__checkpoints__internal"
    assert kept.mm2_names.checkpoints == "a.checkpoints.internal"


def test_an_alias_may_not_hold_a_dot() -> None:
    """Nobody could tell where the alias ends in the name of a topic."""
    text = (
        "clusters: {a.x: {bootstrap_servers: 'a:1'}, b: {bootstrap_servers: 'b:1'}}\n"
        "links: [{name: l, source: a.x, target: b, topics: {include: [x]}, mm2: true}]"
    )

    assert "alias a.x holds a dot" in refusal(text)


def test_checkpoints_without_groups_are_a_warning() -> None:
    """Checkpoints are of the groups that the link selects; a link that only mirrors heartbeats is none."""
    both = linked("name: l, source: a, target: b, mm2: true")
    found = config.parse(both, environment={}).warnings

    assert [warning.partition(": ")[2] for warning in found] == [
        "the link l writes checkpoints (mm2) of no group: name some in its groups.include."
    ]
