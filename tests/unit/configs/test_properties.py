"""How the configuration of a target topic follows the source's: which values are set, removed, and left alone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.configs import loop as configs
from isthmus.configs.loop import ConfigsLoop
from isthmus.configs.properties import PropertyChange, property_changes
from isthmus.kafka.admin.changes import NewTopic
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.loops.loop import LinkView
from isthmus.model.cluster import Cluster
from isthmus.model.configsettings import ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription
from isthmus.model.lane import Lane, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain
from isthmus.topics.creation import DEMANDED, FILLING, creation
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.preflight import TopicPair
from testing.values.names import ORDERS, SOURCE_ORDERS

BROKER: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
NOTHING: Mapping[str, str] = {}
SETTINGS = ConfigSettings()
EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK: Final = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())


def topic(own: Mapping[str, str] = NOTHING, *, brokers: Mapping[str, str] = BROKER, replicas: int = 3) -> Any:
    """A topic with its own configurations on top of its brokers'."""
    configs = {name: ConfigEntry(value) for name, value in brokers.items()}
    configs |= {name: ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for name, value in own.items()}
    return TopicDescription(
        name="orders", topic_id=uuid.UUID(int=1), partition_count=1, replication_factor=replicas, configs=configs
    )


def changes(source: TopicDescription, target: TopicDescription, settings: ConfigSettings = SETTINGS) -> dict[str, Any]:
    """What is changed, by name; `None` restores the brokers' default."""
    found = property_changes(source, target, settings)
    return {change.setting: change.after for change in found if change.problem is None}


def problems(
    source: TopicDescription, target: TopicDescription, settings: ConfigSettings = SETTINGS
) -> dict[str, PropertyChange]:
    """What is not changed although it differs, by name."""
    return {c.setting: c for c in property_changes(source, target, settings) if c.problem is not None}


def patterns(*texts: str) -> tuple[PropertyPattern, ...]:
    return tuple(map(PropertyPattern.parse, texts))


def test_what_the_source_sets_is_set() -> None:
    """A shorter and a longer retention alike: the target has what the source has."""
    assert changes(topic({"retention.ms": "5"}), topic()) == {"retention.ms": "5"}
    assert changes(topic({"retention.ms": "9"}), topic({"retention.ms": "5"})) == {"retention.ms": "9"}
    assert changes(topic({"retention.ms": "5"}), topic({"retention.ms": "5"})) == {}


def test_what_the_source_drops_is_dropped() -> None:
    """The brokers' default counts again, as they have it at the target."""
    assert changes(topic(), topic({"retention.ms": "5"})) == {"retention.ms": None}


def test_defaults_from_the_source() -> None:
    """Whatever the source has is set, also what it has by default; what the target has by default already is not."""
    settings = ConfigSettings(use_defaults_from="source")
    target = topic(brokers={**BROKER, "segment.bytes": "5"})
    assert changes(topic(), target, settings) == {"segment.bytes": "1073741824"}
    assert changes(topic(), topic({"retention.ms": "5"}), settings) == {"retention.ms": "604800000"}


def test_excluded_configurations_are_each_clusters_own() -> None:
    """By default replicas, throttles and unclean elections; else what the link says."""
    source = topic({"min.insync.replicas": "2", "unclean.leader.election.enable": "true", "retention.ms": "5"})
    assert changes(source, topic()) == {"retention.ms": "5"}
    settings = ConfigSettings(exclude=patterns("retention.*", "/unclean.+/"))
    assert changes(source, topic(), settings) == {"min.insync.replicas": "2"}
    assert changes(source, topic(replicas=1), settings) == {}


@pytest.mark.parametrize("topics", ["*", "orders", "ord*", "/o.+/"])
def test_kept_overrides_stay(topics: str) -> None:
    """A value of the target's own stays where it is so marked, for all topics or for some."""
    kept = KeptConfigs(topics=TopicPattern.parse(topics), properties=patterns("retention.*"))
    settings = ConfigSettings(keep=(kept,))
    source, target = topic({"segment.bytes": "5"}), topic({"retention.ms": "7"})
    assert changes(source, target, settings) == {"segment.bytes": "5"}
    other = replace(kept, topics=TopicPattern.parse("bills"))
    assert changes(source, target, replace(settings, keep=(other,))) == {"segment.bytes": "5", "retention.ms": None}


@pytest.mark.parametrize("mode", ["target", "source"])
def test_what_lanes_depend_on_stays(mode: Any) -> None:
    """Codec and timestamps are never set to what the source has, and that is told, once the source sets them itself."""
    source = topic(
        {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1"}
    )
    target = topic({"message.timestamp.after.max.ms": str(2**63 - 1)})
    settings = ConfigSettings(use_defaults_from=mode, exclude=())
    assert changes(source, target, settings) == {}
    told = problems(source, target, settings)
    assert told.keys() == set(source.own_configs)
    assert all(change.is_by_design for change in told.values())
    assert problems(topic(), target, settings) == changes(topic(), target, settings) == {}


def test_what_is_of_a_tier_is_told_where_nobody_said_what_becomes_of_it() -> None:
    """MirrorMaker 2 would set it. By exclusions of the link it is set, or left alone without a word."""
    brokers = {**BROKER, "remote.storage.enable": "false"}
    source, target = topic({"remote.storage.enable": "true"}), topic(brokers=brokers)
    (told,) = problems(source, target).values()
    assert (told.setting, told.before, told.after, told.is_by_design) == (
        "remote.storage.enable",
        "false",
        "true",
        True,
    )
    assert property_changes(source, target, ConfigSettings(exclude=patterns("remote.*"))) == ()
    assert changes(source, target, ConfigSettings(exclude=())) == {"remote.storage.enable": "true"}
    kept = KeptConfigs(topics=TopicPattern.parse("orders"), properties=patterns("remote.*"))
    assert property_changes(source, target, ConfigSettings(keep=(kept,))) == ()


def test_a_policy_by_default_is_held_against_other_defaults() -> None:
    """The target keeps the policy it was created with where its brokers would have another one."""
    brokers = {**BROKER, "cleanup.policy": "compact"}
    assert changes(topic(), topic({"cleanup.policy": "delete"}, brokers=brokers)) == {}
    assert changes(topic(), topic(brokers=brokers)) == {"cleanup.policy": "delete"}
    assert changes(topic({"cleanup.policy": "compact"}), topic()) == {"cleanup.policy": "compact"}


def test_the_largest_batch_is_raised_and_never_lowered() -> None:
    """The source may hold larger batches than it takes by now: then the lane would wait."""
    larger, smaller = {"max.message.bytes": "2000000"}, {"max.message.bytes": "5000"}
    assert changes(topic(larger), topic()) == {"max.message.bytes": "2000000"}
    assert changes(topic(), topic(brokers={**BROKER, **smaller})) == {"max.message.bytes": "1048588"}
    for source in (topic(), topic(smaller)):
        assert changes(source, topic(larger)) == {}
        (change,) = problems(source, topic(larger)).values()
        assert change.is_by_design


def test_what_the_target_does_not_know_is_left_out_and_told() -> None:
    """The rest of the topic is synced."""
    source = topic({"retention.ms": "5", "vendor.special": "2.8"})
    assert changes(source, topic()) == {"retention.ms": "5"}
    told = problems(source, topic())["vendor.special"]
    assert not told.is_by_design
    assert told.problem is not None
    assert "do not know vendor.special" in told.problem.message


def test_what_only_the_target_knows_is_its_own() -> None:
    """A source whose brokers never heard of a configuration cannot have dropped it."""
    assert changes(topic(), topic({"vendor.special": "5"})) == {}


def test_secrets_are_never_shown() -> None:
    """Neither side's value is told, and nothing is set."""
    secret = ConfigEntry("hunter2", ConfigSource.DYNAMIC_TOPIC, is_sensitive=True)
    source, target = topic({"retention.ms": "5"}), topic({"secret": "hunter2"})
    source = replace(source, configs={**source.configs, "secret": secret})
    found = property_changes(source, target, SETTINGS)
    assert [change.setting for change in found] == ["retention.ms", "secret"]
    assert "hunter2" not in str([plain(change) for change in found])
    hidden = replace(target, configs={**target.configs, "secret": secret})
    assert changes(topic({"secret": "5"}), hidden) == {}


def test_which_topics_are_synced() -> None:
    """By default those with the source's offsets; mapped ones if the link says so, none if it says no."""
    assert [SETTINGS.covers(is_mapped=is_mapped) for is_mapped in (False, True)] == [True, False]
    assert ConfigSettings(sync=True).covers(is_mapped=True)
    assert not ConfigSettings(sync=False).covers(is_mapped=False)


def test_the_loop_runs_unless_it_is_turned_off() -> None:
    """The interval is that of the link."""
    assert ConfigsLoop().interval_s(LINK) == 600.0
    assert ConfigsLoop().interval_s(replace(LINK, configs=ConfigSettings(sync=False))) is None


UNKNOWN_YET: Final = NewTopic(name="orders", partition_count=1, replication_factor=1)


@pytest.mark.parametrize(
    "filling",
    [
        {"final": {"retention.ms": None}},
        {"settles": {"retention.ms": None}},
        {"action": Action.CREATE, "creation": UNKNOWN_YET},
    ],
)
def test_a_target_that_is_filling_is_left_alone(filling: Any) -> None:
    """While a prefix is filled its configuration is that of filling, and when that ends is not up to this loop. Whether
    one is filled that came later than it was waited for, or is somebody else's, shows when it was looked at.
    """
    source, target = topic({"segment.bytes": "5"}), topic(FILLING)
    topic_id = uuid.UUID(int=1)
    lane = Lane(
        source_topic=SOURCE_ORDERS,
        source_topic_id=topic_id,
        target_topic=ORDERS,
        target_topic_id=topic_id,
        partition=0,
    )
    plan = TopicPlan(topic=ORDERS, source_topic=SOURCE_ORDERS, action=Action.COPY, lanes=(lane,))

    def found(plan: TopicPlan) -> set[str]:
        view = LinkView(
            link=LINK,
            source=Client(EAST),
            target=Client(WEST),
            plan=LinkPlan(link="l", source="east", target="west", topics=(plan,)),
            pairs={ORDERS: TopicPair(name=ORDERS, source=source, target=target)},
        )
        return {change.subject for change in asyncio.run(ConfigsLoop().look(view))}

    assert found(plan) == {"topic orders"}
    assert found(replace(plan, **filling)) == set()


@pytest.mark.parametrize(
    ("there", "here", "waiting"),
    [
        ({}, {"retention.ms": "-1"}, {"cleanup.policy", "retention.ms"}),
        ({"retention.ms": "5"}, {"retention.ms": "9"}, {"cleanup.policy"}),
        ({"retention.ms": "-1"}, {"retention.ms": "9"}, {"cleanup.policy"}),
        ({"retention.ms": "9"}, {"retention.ms": "5", "segment.bytes": "7"}, {"cleanup.policy"}),
    ],
)
def test_a_retention_comes_with_the_policy_that_keeps_records(
    there: dict[str, str], here: dict[str, str], waiting: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source is compacted from now on, and bounds no age by that. Until the target is so too, its delete policy would
    take what the source keeps: it has no retention for as long, as a target that is created then.
    """

    async def logs(*_: Any) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes({("orders", 0): LogRange(0, 9, 9)})

    monkeypatch.setattr(configs, "log_ranges", logs)
    source, target = topic({"cleanup.policy": "compact", **there}), topic(here)
    topic_id = source.topic_id
    lane = Lane(
        source_topic=SOURCE_ORDERS,
        source_topic_id=topic_id,
        target_topic=ORDERS,
        target_topic_id=topic_id,
        partition=0,
    )
    plan = TopicPlan(topic=ORDERS, source_topic=SOURCE_ORDERS, action=Action.COPY, lanes=(lane,))
    view = LinkView(
        link=LINK,
        source=Client(EAST),
        target=Client(WEST),
        plan=LinkPlan(link="l", source="east", target="west", topics=(plan,)),
        pairs={ORDERS: TopicPair(name=ORDERS, source=source, target=target)},
    )
    loop = ConfigsLoop()
    found = asyncio.run(loop.look(view))
    assert {change.setting for change in found if change.problem is not None} == waiting
    set_now = {change.setting: change.after for change in found if change.problem is None}
    assert (here | set_now).items() >= {"retention.ms": "-1", "retention.bytes": "-1"}.items()
    reached = replace(view, reports={lane.key: LaneReport(key=lane.key, state=LaneState.ACTIVE, position=9)})
    assert not loop.is_awaited(view)
    assert loop.is_awaited(reached)
    found = asyncio.run(loop.look(reached))
    assert {change.setting for change in found if change.problem is not None} == set()
    assert not loop.is_awaited(reached)


def test_a_retention_without_a_meaning_is_not_set() -> None:
    """A compacted source has one, or the default, and the target, whose policy is its own business, deletes: it would
    lose by it what the source keeps. A longer one does no harm.
    """
    excluded = replace(LINK, configs=ConfigSettings(exclude=(PropertyPattern.parse("cleanup.policy"),)))

    def retention(there: dict[str, str], here: dict[str, str]) -> list[bool]:
        source, target = topic({"cleanup.policy": "compact", **there}), topic(here)
        plan = TopicPlan(topic=ORDERS, source_topic=SOURCE_ORDERS, action=Action.COPY, lanes=(lane_of(source),))
        view = LinkView(
            link=excluded,
            source=Client(EAST),
            target=Client(WEST),
            plan=LinkPlan(link="l", source="east", target="west", topics=(plan,)),
            pairs={ORDERS: TopicPair(name=ORDERS, source=source, target=target)},
        )
        found = asyncio.run(ConfigsLoop().look(view))
        return [change.problem is None for change in found if change.setting == "retention.ms"]

    assert retention({}, FILLING) == [False]
    assert retention({"retention.ms": "5"}, {"retention.ms": "9"}) == [False]
    assert retention({"retention.ms": "9"}, {"retention.ms": "5"}) == [True]
    assert retention({"retention.ms": "5"}, {"retention.ms": "9", "cleanup.policy": "compact"}) == [True]


def lane_of(source: TopicDescription) -> Lane:
    """The lane of a topic's only partition."""
    return Lane(
        source_topic=SOURCE_ORDERS,
        source_topic_id=source.topic_id,
        target_topic=ORDERS,
        target_topic_id=source.topic_id,
        partition=0,
    )


def test_a_policy_that_somebody_has_set_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one of a source whose end is not known: the loop would look every second."""
    known: dict[PartitionKey, LogRange] = {}

    async def logs(*_: Any) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes(known)

    monkeypatch.setattr(configs, "log_ranges", logs)
    source = topic({"cleanup.policy": "compact"})
    lane = Lane(
        source_topic=SOURCE_ORDERS,
        source_topic_id=source.topic_id,
        target_topic=ORDERS,
        target_topic_id=source.topic_id,
        partition=0,
    )
    plan = TopicPlan(topic=ORDERS, source_topic=SOURCE_ORDERS, action=Action.COPY, lanes=(lane,))
    loop = ConfigsLoop()

    def looked(target: TopicDescription) -> bool:
        view = LinkView(
            link=LINK,
            source=Client(EAST),
            target=Client(WEST),
            plan=LinkPlan(link="l", source="east", target="west", topics=(plan,)),
            pairs={ORDERS: TopicPair(name=ORDERS, source=source, target=target)},
        )
        asyncio.run(loop.look(view))
        reached = LaneReport(key=lane.key, state=LaneState.ACTIVE, position=9)
        return loop.is_awaited(replace(view, reports={lane.key: reached}))

    assert not looked(topic())
    known["orders", 0] = LogRange(0, 9, 9)
    assert looked(topic())
    assert not looked(topic({"cleanup.policy": "compact"}))


OWN = st.dictionaries(st.sampled_from([*sorted(BROKER), "vendor.special"]), st.sampled_from(["1", "2", "4000000"]))
POLICIES = st.sampled_from(["delete", "compact", "compact,delete"])


@st.composite
def topics(draw: st.DrawFn) -> TopicDescription:
    """Any topic, on brokers with any defaults."""
    own, brokers = draw(OWN), {**BROKER, **draw(OWN)}
    for values in (own, brokers):
        values.pop("message.timestamp.type", None)
        if "cleanup.policy" in values:
            values["cleanup.policy"] = draw(POLICIES)
    found: TopicDescription = topic(own, brokers={**BROKER, **brokers})
    return found


@st.composite
def any_settings(draw: st.DrawFn) -> ConfigSettings:
    """Any settings of a link."""
    names = st.lists(st.sampled_from([*sorted(BROKER), "retention.*", "*"]), max_size=3)
    kept = KeptConfigs(topics=TopicPattern.parse("*"), properties=patterns(*draw(names)))
    return ConfigSettings(
        exclude=patterns(*draw(names)), keep=(kept,), use_defaults_from=draw(st.sampled_from(["target", "source"]))
    )


def made(target: TopicDescription, values: Mapping[str, str | None]) -> TopicDescription:
    """The topic as its brokers have it after a change."""
    own = {**target.own_configs, **values}
    brokers = {name: entry.value or "" for name, entry in target.configs.items() if name in BROKER}
    brokers |= {name: BROKER[name] for name in target.own_configs if name in BROKER}
    changed: TopicDescription = topic({n: v for n, v in own.items() if v is not None}, brokers=brokers)
    return changed


@given(topics(), topics(), any_settings())
def test_what_was_changed_is_not_changed_again(
    source: TopicDescription, target: TopicDescription, settings: ConfigSettings
) -> None:
    """A second look finds nothing; what is kept, excluded or demanded is as it was."""
    wanted = changes(source, target, settings)
    after = made(target, wanted)
    assert changes(source, after, settings) == {}
    assert DEMANDED.isdisjoint(wanted)
    assert not any(settings.is_excluded(name) or settings.keeps(SOURCE_ORDERS, name) for name in wanted)


@given(topics(), topics())
def test_a_topic_as_it_is_created_needs_no_change(source: TopicDescription, brokers: TopicDescription) -> None:
    """Creation and sync agree: nothing is pending behind a topic that Isthmus has just created."""
    defaults = {name: ConfigEntry(entry.value) for name, entry in brokers.configs.items() if name in BROKER}
    new = creation(source, name=ORDERS, defaults=defaults, brokers=3, has_prefix=False).topic
    created = topic(new.configs, brokers={name: entry.value or "" for name, entry in defaults.items()})
    assert changes(source, created) == {}
