"""What target topics are created with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from isthmus.model.configsettings import ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, Settings, TopicDescription
from isthmus.model.selection import TopicPattern
from isthmus.topics.creation import FILLING, creation, final_policy, is_filled, letter_creations
from isthmus.topics.preflight import LONG_MAX, TopicPair
from testing.values.names import ORDERS

BROKER_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
NOTHING: Mapping[str, str] = {}


def defaults(changed: Mapping[str, str] = NOTHING) -> dict[str, ConfigEntry]:
    """What a cluster gives a topic."""
    return {name: ConfigEntry(v) for name, v in {**BROKER_DEFAULTS, **changed}.items()}


def topic(own: Mapping[str, str] = NOTHING, *, replication_factor: int = 3) -> TopicDescription:
    """A topic with its own configurations on top of the defaults."""
    configs = defaults() | {
        name.replace("_", "."): ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for name, value in own.items()
    }
    return TopicDescription(
        name="orders",
        topic_id=uuid.uuid4(),
        partition_count=1,
        replication_factor=replication_factor,
        configs=configs,
    )


def configs_of(
    source: TopicDescription,
    changed: Mapping[str, str] = NOTHING,
    *,
    has_prefix: bool = False,
) -> dict[str, str]:
    """The configurations the target topic is created with."""
    made = creation(source, name=ORDERS, defaults=defaults(changed), brokers=3, has_prefix=has_prefix)
    return dict(made.topic.configs)


def settled(
    source: TopicDescription,
    target: TopicDescription,
    source_ranges: Mapping[int, LogRange],
    target_ranges: Mapping[int, LogRange],
    settings: ConfigSettings | None = None,
    *,
    filled_ends: Mapping[int, int] | None = None,
    copied_ends: Mapping[int, int] | None = None,
    before: Settings = (),
) -> dict[str, str | None]:
    """What a target gets now; nothing while it is filled, or where it was not created for that."""
    pair = TopicPair(
        name=ORDERS,
        source=source,
        target=target,
        source_ranges=source_ranges,
        target_ranges=target_ranges,
        filled_ends=filled_ends or {},
    )
    return final_policy(source, target.own_configs, settings, before) if is_filled(pair, copied_ends) else {}


FUTURE = {"message.timestamp.after.max.ms": str(LONG_MAX)}


def test_own_configurations_are_copied() -> None:
    """What was set for the source topic is set for the target topic, defaults are left alone."""
    assert configs_of(topic({"retention.ms": "1000", "min.insync.replicas": "2"})) == FUTURE | {
        "retention.ms": "1000",
        "min.insync.replicas": "2",
    }


def test_configurations_of_a_cluster_are_not_copied() -> None:
    """Throttles, unclean elections, tiering and codecs stay the business of each cluster."""
    source = topic(
        {
            "leader.replication.throttled.replicas": "*",
            "unclean.leader.election.enable": "true",
            "compression.type": "lz4",
            "remote.storage.enable": "true",
            "local.retention.ms": "1000",
            "message.timestamp.type": "LogAppendTime",
        }
    )
    assert configs_of(source) == FUTURE


def test_sensitive_and_read_only_configurations_are_not_copied() -> None:
    """A value that may not be seen or set is no configuration of the topic's own."""
    secret = ConfigEntry(None, ConfigSource.DYNAMIC_TOPIC, is_sensitive=True)
    fixed = ConfigEntry("1", ConfigSource.DYNAMIC_TOPIC, is_read_only=True)
    source = TopicDescription(
        name="orders",
        topic_id=uuid.uuid4(),
        partition_count=1,
        replication_factor=1,
        configs={"secret": secret, "fixed": fixed},
    )
    assert source.own_configs == {}


def test_unknown_configurations_are_left_out_and_told() -> None:
    """What the target's brokers do not know does not keep the topic from being created."""
    made = creation(topic({"vendor.special": "3.0"}), name=ORDERS, defaults=defaults(), brokers=3, has_prefix=False)
    assert "vendor.special" not in made.topic.configs
    assert "vendor.special" in made.notes[0].message


def test_replicas_fit_the_target() -> None:
    """A smaller target gets fewer replicas and a minimum it can reach, and the plan says so."""
    made = creation(
        topic({"min.insync.replicas": "2"}, replication_factor=3),
        name=ORDERS,
        defaults=defaults(),
        brokers=1,
        has_prefix=False,
    )
    assert made.topic.replication_factor == 1
    assert made.topic.configs["min.insync.replicas"] == "1"
    assert "3 replicas" in made.notes[0].message


def test_target_takes_the_batches_as_they_are() -> None:
    """Whatever the target's defaults, the topic keeps codecs, timestamps of any age and sizes."""
    changed = {
        "compression.type": "zstd",
        "message.timestamp.before.max.ms": "1000",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": "1000",
    }
    assert configs_of(topic(), changed) == FUTURE | {
        "compression.type": "producer",
        "message.timestamp.before.max.ms": str(LONG_MAX),
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "1048588",
    }


def test_older_brokers_get_the_limit_they_know() -> None:
    """Brokers before KIP-937 know one limit for timestamps; it is lifted."""
    known = {
        name: value
        for name, value in defaults({"message.timestamp.difference.max.ms": "1000"}).items()
        if "before" not in name and "after" not in name
    }
    made = creation(topic(), name=ORDERS, defaults=known, brokers=3, has_prefix=False)
    assert made.topic.configs == {"message.timestamp.difference.max.ms": str(LONG_MAX)}


def test_compacted_topic_with_a_prefix_is_created_for_filling_then_settled() -> None:
    """The delete policy is there while the prefix is filled, and gone when that is done."""
    source = topic({"cleanup.policy": "compact", "retention.ms": "5000"})
    made = configs_of(source, has_prefix=True)
    assert made["cleanup.policy"] == "delete"
    assert made["retention.ms"] == made["retention.bytes"] == "-1"
    target = topic(made)
    source_ranges = {0: LogRange(100, 200, 200)}
    for log in (LogRange(0, 0, 0), LogRange(0, 50, 50), LogRange(100, 100, 100)):
        assert settled(source, target, source_ranges, {0: log}, filled_ends={0: 101}) == {}
    past = settled(source, target, source_ranges, {0: LogRange(100, 101, 101)}, filled_ends={0: 101})
    assert past == {"cleanup.policy": "compact", "retention.ms": "5000", "retention.bytes": None}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_that_holds_records_is_filled_first(policy: str) -> None:
    """They may have no keys, from before it was compacted, and a compacted topic takes none of those: the target is
    compacted when it has all that the source had when it was first seen so.
    """
    source = topic({"cleanup.policy": policy, "retention.ms": "5000"})
    made = creation(source, name=ORDERS, defaults=defaults(), brokers=3, has_prefix=False, has_records=True)
    target = topic(made.topic.configs)
    assert target.own_configs.items() >= FILLING.items()
    logs, ends = {0: LogRange(0, 300, 300)}, {0: 200}
    assert settled(source, target, logs, {0: LogRange(0, 199, 199)}, filled_ends=ends) == {}
    assert settled(source, target, logs, {}, filled_ends=ends) == {}
    past = settled(source, target, logs, {0: LogRange(0, 200, 200)}, filled_ends=ends)
    assert past == {"cleanup.policy": policy, "retention.ms": "5000", "retention.bytes": None}
    # Who does not know when that was waits for all.
    assert settled(source, target, logs, {0: LogRange(0, 299, 299)}) == {}


def test_what_a_release_before_began_to_fill_is_settled() -> None:
    """It kept compacting meanwhile."""
    source, target = topic({"cleanup.policy": "compact"}), topic({**FILLING, "cleanup.policy": "compact,delete"})
    logs = {0: LogRange(0, 5, 5)}
    past = settled(source, target, logs, logs)
    assert past == {"cleanup.policy": "compact", "retention.ms": None, "retention.bytes": None}


def test_a_mapped_topic_is_filled_when_its_source_is_read_as_far() -> None:
    """The target's own offsets say nothing of it; what the source has deleted does not come."""
    source = topic({"cleanup.policy": "compact"})
    target, logs = topic(FILLING), {0: LogRange(100, 300, 300)}
    policy = {"cleanup.policy": "compact", "retention.ms": None, "retention.bytes": None}
    for copied, filled_end, wanted in ((199, 200, {}), (200, 200, policy), (-1, 200, {}), (-1, 100, policy)):
        found = settled(
            source, target, logs, {0: LogRange(0, 9, 9)}, filled_ends={0: filled_end}, copied_ends={0: copied}
        )
        assert found == wanted


def test_what_the_link_began_to_fill_it_ends() -> None:
    """Also where an operator has excluded or kept the policy since, or the source is not compacted any more: what is
    the target's own business is then what it would have been. Where nobody began it the topic is left alone.
    """
    logs, target = {0: LogRange(0, 5, 5)}, topic(FILLING)
    before = (("cleanup.policy", "compact"), ("retention.bytes", None), ("retention.ms", "7"))
    excluded = ConfigSettings(exclude=(PropertyPattern.parse("cleanup.policy"), PropertyPattern.parse("retention.ms")))
    source = topic({"cleanup.policy": "compact,delete", "retention.bytes": "9"})
    past = settled(source, target, logs, logs, excluded, before=before)
    assert past == {"cleanup.policy": "compact", "retention.bytes": "9", "retention.ms": "7"}
    assert settled(source, target, logs, logs, excluded) == {}
    plain = topic({"retention.ms": "5"})
    assert settled(plain, target, logs, {0: LogRange(0, 1, 1)}, before=before) == {
        "retention.ms": "5",
        "retention.bytes": None,
    }
    assert settled(plain, target, logs, logs) == {}
    changed = topic({**FILLING, "retention.ms": "3"})
    assert settled(source, changed, logs, logs, before=before) == {}


def test_what_is_added_can_be_excluded_unless_records_need_it() -> None:
    """A limit that is lifted for rare records is convenient; without Kafka's codec there are no same offsets."""
    every = ConfigSettings(exclude=(PropertyPattern.parse("*"),))
    changed = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime", "max.message.bytes": "5"}
    made = creation(topic(), name=ORDERS, defaults=defaults(changed), brokers=3, has_prefix=False, settings=every)
    assert made.topic.configs == {"compression.type": "producer", "message.timestamp.type": "CreateTime"}


def test_a_link_says_how_many_replicas_there_are() -> None:
    """Whatever the source has; the brokers say whether they can."""
    made = creation(topic(), name=ORDERS, defaults=defaults(), brokers=1, has_prefix=False, replication_factor=2)
    assert (made.topic.replication_factor, made.notes) == (2, ())


def test_empty_partition_is_past_its_prefix_when_all_is_deleted() -> None:
    """A source partition that holds nothing needs no record to prove that the filling is over."""
    source = topic({"cleanup.policy": "compact"})
    made = configs_of(source, has_prefix=True)
    target = topic(made)
    empty = {0: LogRange(100, 100, 100)}
    assert settled(source, target, empty, {0: LogRange(100, 100, 100)}) != {}
    assert settled(source, target, empty, {}) == {}


def test_what_the_target_keeps_is_left_to_its_brokers() -> None:
    """Neither creation nor the end of filling sets what the link excludes, or has the target keep."""
    kept = KeptConfigs(topics=TopicPattern.parse("ord*"), properties=(PropertyPattern.parse("retention.ms"),))
    settings = ConfigSettings(keep=(kept,), exclude=(PropertyPattern.parse("segment.*"),))
    own = {"cleanup.policy": "compact", "retention.ms": "5", "segment.ms": "7", "retention.bytes": "9"}
    source = topic(own)
    known = {**defaults(), "segment.ms": ConfigEntry("1")}
    made = creation(source, name=ORDERS, defaults=known, brokers=3, has_prefix=False, settings=settings).topic.configs
    assert made.keys() & own.keys() == {"cleanup.policy", "retention.bytes"}
    filled = creation(source, name=ORDERS, defaults=known, brokers=3, has_prefix=True, settings=settings).topic.configs
    ranges = {0: LogRange(100, 200, 200)}
    past = settled(source, topic(filled), ranges, {0: LogRange(100, 200, 200)}, settings)
    assert past == {"cleanup.policy": "compact", "retention.ms": None, "retention.bytes": "9"}


def test_other_topics_are_not_settled() -> None:
    """A target that was not created for filling keeps the policy its operator gave it."""
    source = topic({"cleanup.policy": "compact"})
    ranges = {0: LogRange(0, 5, 5)}
    assert settled(source, topic({"cleanup.policy": "compact,delete"}), ranges, ranges) == {}


def test_an_empty_policy_is_one() -> None:
    """With cleanup.policy= brokers neither delete nor compact: the target gets that too, behind its prefix as well."""
    source = topic({"cleanup.policy": ""})

    assert configs_of(source)["cleanup.policy"] == ""
    made = configs_of(source, has_prefix=True)
    assert made["cleanup.policy"] == "compact,delete"
    log = LogRange(100, 101, 101)
    assert settled(source, topic(made), {0: log}, {0: log})["cleanup.policy"] == ""


def test_topics_for_dead_letters_are_asked_for_in_the_best_way_first() -> None:
    """Brokers may not know each limit of times, and services bound the size of batches: then the source's, then their
    own.
    """
    found = letter_creations(topic({"max_message_bytes": "2000000"}), "letters", replication_factor=1)
    sizes = [each.configs.get("max.message.bytes") for each in found]
    assert sizes == [*[str(64 << 20)] * 3, *["2000000"] * 3, *[None] * 3]
    assert all(each.configs["retention.ms"] == "-1" for each in found)
    assert len({tuple(each.configs.items()) for each in found}) == len(found)
