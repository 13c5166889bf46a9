"""Flows as links: what MirrorMaker 2 would do, in our words, and what nobody does."""

from __future__ import annotations

import re

import pytest

from isthmus.errors import ConfigError
from isthmus.interop.deployment import Impact
from isthmus.interop.equivalents import EQUIVALENTS, FAMILIES, Fate
from isthmus.interop.links import OffsetsChoice
from isthmus.interop.predecessors import predecessor_of
from isthmus.model.kafka.access import AccessPolicy
from isthmus.model.mirrormaker import SyncsPlace
from isthmus.model.naming import (
    IDENTITY,
    MirrorMakerNaming,
    NameTemplate,
    PrefixNaming,
    SourceTopic,
    TemplateNaming,
)
from isthmus.model.offsets import LATEST, OffsetPolicy
from isthmus.model.text.plain import plain
from testing.values.samples import SHIPPED, Bench, about, configured, imported, keys, pair, read

POLICY = "a->b.replication.policy.class = "


def test_the_file_that_kafka_ships_becomes_two_links() -> None:
    """All topics both ways, named as MirrorMaker 2 names them, without its own."""
    configuration = configured(imported(SHIPPED))

    there, back = configuration.links
    assert (there.name, back.name) == ("A-B", "B-A")
    assert there.topics.naming == MirrorMakerNaming(source_alias="A", target_alias="B")
    assert there.topics.offsets is OffsetPolicy.AUTO
    names = ["orders", "mm2-offsets.B.internal", "B.checkpoints.internal", "x.replica", "__consumer_offsets", "B.loop"]
    assert list(there.topics.name_topics(names).sources) == ["A.orders"]
    assert (there.groups.commit, there.groups.matches("billing"), there.mm2.checkpoints) == (False, True, True)


def test_lists_become_patterns() -> None:
    """What is included and excluded is what MirrorMaker 2's expressions match."""
    lines = ("a->b.topics = orders, foo-.*, audit-[0-9]+", r"a->b.topics.exclude = foo-private\\..*")
    (link,) = configured(imported(pair(*lines))).links

    assert [str(pattern) for pattern in link.topics.include] == ["orders", "foo-*", "/audit-[0-9]+/"]
    assert str(link.topics.exclude[0]) == "foo-private.*"
    assert not link.topics.matches(SourceTopic("mm2-configs.a.internal"))


def test_positions_of_groups_are_carried_where_mm2_wrote_them() -> None:
    """sync.group.offsets.enabled brings the groups, without those that MirrorMaker 2 leaves out by default."""
    (link,) = configured(imported(pair("sync.group.offsets.enabled = true", "groups = billing, connect-x"))).links

    assert link.groups.matches("billing")
    assert not link.groups.matches("connect-x")
    assert link.groups.way == "mapped"


def test_groups_without_their_positions_are_told() -> None:
    """A list of groups alone carries nothing, in MirrorMaker 2 as well, where it writes no checkpoints either."""
    draft = imported(pair("groups = billing", "emit.checkpoints.enabled = false"))

    assert not configured(draft).links[0].groups.is_configured
    assert "sync.group.offsets.enabled is not true" in about(draft, "groups").why


def test_groups_of_checkpoints_alone_are_translated_and_not_committed() -> None:
    """By default MirrorMaker 2 writes checkpoints and no positions: so does the link."""
    (link,) = configured(imported(pair("groups = billing"))).links

    assert (link.groups.commit, link.mm2.checkpoints, link.groups.way) == (False, True, "mapped")
    assert link.groups.matches("billing")
    assert not link.groups.matches("audit")
    (carrying,) = configured(imported(pair("groups = billing", "sync.group.offsets.enabled = true"))).links
    assert carrying.groups.commit


@pytest.mark.parametrize(
    ("lines", "naming"),
    [
        ((), MirrorMakerNaming(source_alias="a", target_alias="b")),
        (("replication.policy.separator = _",), MirrorMakerNaming(source_alias="a", target_alias="b", separator="_")),
        ((f"{POLICY}org.apache.kafka.connect.mirror.IdentityReplicationPolicy",), IDENTITY),
        ((f"{POLICY}io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",), IDENTITY),
    ],
)
def test_policies_become_namings(lines: tuple[str, ...], naming: object) -> None:
    """The default policy is mm2, with its separator; the identity policy keeps names."""
    assert configured(imported(pair(*lines))).links[0].topics.naming == naming


def test_an_alias_with_the_separator_becomes_a_prefix() -> None:
    """Names are the same, although mm2 refuses such aliases."""
    text = "clusters=a,us.b\na.bootstrap.servers=x:1\nus.b.bootstrap.servers=y:1\nus.b->a.enabled=true\n"

    assert configured(imported(text)).links[0].topics.naming == PrefixNaming(target_prefix="us.b.")


@pytest.mark.parametrize(
    ("lines", "naming"),
    [
        (("replication.policy.separator =", "source.cluster.alias ="), IDENTITY),
        (("replication.policy.separator =", "a->b.source.cluster.alias ="), IDENTITY),
        (("replication.policy.separator =",), PrefixNaming(target_prefix="a")),
        (("source.cluster.alias =",), PrefixNaming(target_prefix=".")),
        (("source.cluster.alias = east",), PrefixNaming(target_prefix="east.")),
        (("target.cluster.alias =",), PrefixNaming(target_prefix="a.")),
    ],
)
def test_an_empty_value_is_a_value(lines: tuple[str, ...], naming: object) -> None:
    """An alias or a separator that is written and empty counts as it stands: names have nothing in its place."""
    deployment = read(pair(*lines))
    draft = imported(pair(*lines))

    assert configured(draft).links[0].topics.naming == naming
    (flow,) = deployment.flows
    assert predecessor_of(deployment, flow).source_alias == flow.source_alias
    assert (flow.source, flow.target) == ("a", "b")
    # Its own topics would have names that tell no alias.
    assert "emit.heartbeats.enabled" in keys(draft, Impact.LOST)
    assert "heartbeats: true" not in draft.text


def routed(regex: str, replacement: str, *lines: str) -> str:
    """A flow with a transform that gives topics other names."""
    kind = "org.apache.kafka.connect.transforms.RegexRouter"
    return pair(
        "a->b.transforms = names",
        f"a->b.transforms.names.type = {kind}",
        f"a->b.transforms.names.regex = {regex}",
        f"a->b.transforms.names.replacement = {replacement}",
        *lines,
    )


@pytest.mark.parametrize(
    ("regex", "replacement", "naming"),
    [
        (r"a\\.(.*)", "$1", IDENTITY),
        ("^a.(.+)$", "${1}", IDENTITY),
        (r"a\\.(.*)", "east-$1", PrefixNaming(target_prefix="east-")),
        ("(.*)", "dr.$1", PrefixNaming(target_prefix="dr.a.")),
        (r"a\\.(.*)", "a.$1", MirrorMakerNaming(source_alias="a", target_alias="b")),
        (
            r"a\\.(.*)",
            "x.$1-copy",
            TemplateNaming(source=NameTemplate.parse("{topic}"), target=NameTemplate.parse("x.{topic}-copy")),
        ),
    ],
)
def test_a_router_is_a_naming(regex: str, replacement: str, naming: object) -> None:
    """A transform that takes a beginning off names, and puts another before them, changes names and no records."""
    draft = imported(routed(regex, replacement))

    assert draft.is_complete
    assert configured(draft).links[0].topics.naming == naming
    assert about(draft, "a->b.transforms.names.type").impact is Impact.CHANGED
    assert "a->b.transforms" not in keys(draft, Impact.LOST)


@pytest.mark.parametrize(
    "text",
    [
        routed(r"b\\.(.*)", "$1"),
        routed(r"a\\.orders(.*)", "$1"),
        routed(r"a\\.(.*)-v1", "$1"),
        routed(r"a\\.(.*)", "$1$1"),
        routed(r"a\\.(.*)", "$1", "a->b.transforms.names.predicate = some"),
        routed(r"a\\.(.*)", "$1").replace("RegexRouter", "TimestampRouter"),
        routed(r"a\\.(.*)", "$1").replace("= names", "= names, names"),
    ],
)
def test_a_router_that_is_no_naming_has_to_be_said(text: str) -> None:
    """Nothing is copied until somebody has said how topics are named."""
    draft = imported(text)

    assert about(draft, "a->b.transforms.names.type").impact is Impact.NEEDED
    assert configured(draft).links[0].topics.include == ()


def test_a_topic_for_each_day_has_to_be_said() -> None:
    """A link copies a topic into one topic, whatever the times of records are."""
    draft = imported(routed(r"a\\.(.*)", "$1").replace("RegexRouter", "TimestampRouter"))
    assert "by their times" in about(draft, "a->b.transforms.names.type").why


def test_records_are_changed_beside_a_router() -> None:
    """Names at the target count where a step stands: behind the router the others."""
    kind = "org.apache.kafka.connect.transforms"
    lines = (
        f"a->b.transforms.drop.type = {kind}.Filter",
        "a->b.transforms.drop.predicate = some",
        f"a->b.predicates.some.type = {kind}.predicates.TopicNameMatches",
        "a->b.predicates.some.pattern = PATTERN",
    )
    for order, pattern in (("drop, names", r"a\\.orders"), ("names, drop", "orders")):
        text = routed(r"a\\.(.*)", "$1", *lines).replace("= names", f"= {order}").replace("PATTERN", pattern)
        (link,) = configured(imported(text)).links
        assert link.topics.naming == IDENTITY
        assert [(list(map(str, each.topics)), each.where) for each in link.transforms] == [(["orders"], "false")]


def test_places_that_something_else_fills_in_are_told() -> None:
    """Kafka has no ${NAME}: whatever starts MirrorMaker 2 fills it in."""
    draft = imported(pair("a->b.topics = ${TOPICS}").replace("a:1", "${EAST_1}:9092"))

    assert "write ${env:EAST_1}" in about(draft, "a.bootstrap.servers").todo
    assert {"a.bootstrap.servers", "a->b.topics"} <= set(keys(draft, Impact.NEEDED))


def test_its_own_topics_follow_the_separator() -> None:
    """MirrorMaker 2 names its own topics by the separator, unless that is switched off."""
    # A link that writes such topics leaves out what is named as its own.
    written = (
        "replication.policy.separator = _",
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
    )
    separated = configured(imported(pair(*written))).links[0].topics
    apart = (*written, "replication.policy.internal.topic.separator.enabled = false")
    plain = configured(imported(pair(*apart))).links[0].topics

    assert not separated.matches(SourceTopic("a_checkpoints_internal"))
    assert plain.matches(SourceTopic("a_checkpoints_internal"))
    assert not plain.matches(SourceTopic("a.checkpoints.internal"))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (f"{POLICY}com.example.OurPolicy", "a->b.replication.policy.class"),
        ("a->b.topic.filter.class = com.example.OurFilter", "a->b.topic.filter.class"),
        (r"a->b.topics.exclude = secret-\\p{IsGreek}+", "a->b.topics.exclude"),
    ],
)
def test_nothing_is_copied_that_mm2_may_leave_out(line: str, key: str) -> None:
    """Where names or exclusions are not known, no topic is included until somebody has said them."""
    draft = imported(pair(line))

    assert configured(draft).links[0].topics.include == ()
    assert "# To be filled in" in draft.text
    assert about(draft, key).impact is Impact.NEEDED
    assert not draft.is_complete


def test_an_expression_of_java_is_named_and_the_others_stay() -> None:
    """A topic list is taken as far as it can be said, and the rest is told with the reason."""
    draft = imported(pair(r"topics = orders, \\p{IsGreek}+"))

    assert [str(each) for each in configured(draft).links[0].topics.include] == ["orders"]
    notice = about(draft, "topics")
    assert (notice.value, notice.line, notice.impact) == (r"\p{IsGreek}+", 5, Impact.NEEDED)


@pytest.mark.parametrize(
    ("line", "impact", "says"),
    [
        ("a->b.producer.override.compression.type = zstd", Impact.CHANGED, "codec"),
        ("b.producer.compression.type = zstd", Impact.CHANGED, "codec"),
        ("a.client.id = mirror", Impact.CHANGED, "isthmus- and its name"),
        ("metric.reporters = com.example.Statsd", Impact.CHANGED, "Prometheus"),
        ("a.consumer.interceptor.classes = com.example.Audit", Impact.LOST, "intercepts"),
        ("a->b.source.consumer.interceptor.classes = com.example.Audit", Impact.LOST, "intercepts"),
        ("offset.storage.replication.factor = 3", Impact.UNNEEDED, "no Connect worker"),
        ("listeners = http://0.0.0.0:8443", Impact.UNNEEDED, "no Connect worker"),
        ("batch.size = 5", Impact.UNNEEDED, "no tuning"),
        ("a.consumer.client.rack = zone-1", Impact.LOST, "leaders alone"),
        ("a->b.tasks.max.enforce = true", Impact.UNNEEDED, "slots"),
        ("a->b.connector.plugin.version = [4.0,)", Impact.UNNEEDED, "no Connect worker"),
    ],
)
def test_what_is_said_of_clients_and_workers_is_told_by_what_it_does(line: str, impact: Impact, says: str) -> None:
    """Tuning is not missed; what brokers, operators or records would notice is told as such."""
    notice = about(imported(pair(line)), line.partition(" =")[0])

    assert notice.impact is impact
    assert says in notice.why


def test_a_default_is_told_of_the_flow_that_has_it() -> None:
    """Where one flow says it and another does not, the notice names the other one."""
    draft = imported(pair("b->a.enabled = true", "b->a.topics.exclude = x", "sync.topic.acls.enabled = false"))

    assert "a->b.topics.exclude" in keys(draft, Impact.CHANGED)
    assert "topics.exclude" in keys(imported(pair("b->a.enabled = true")), Impact.CHANGED)


@pytest.mark.parametrize(
    ("lines", "place", "lag"),
    [
        ((), SyncsPlace.OFF, 100),
        (("emit.offset-syncs.enabled = true", "offset.lag.max = 0"), SyncsPlace.SOURCE, 0),
        (("offset-syncs.topic.location = target",), SyncsPlace.TARGET, 100),
        (("offset-syncs.topic.location = source", "offset.lag.max = -1"), SyncsPlace.SOURCE, 0),
        (("emit.offset-syncs.enabled = false", "offset-syncs.topic.location = target"), SyncsPlace.OFF, 100),
    ],
)
def test_pairs_of_offsets_are_written_if_they_are_asked_for(
    lines: tuple[str, ...], place: SyncsPlace, lag: int
) -> None:
    """Where the file has them, and not because MirrorMaker 2 has them for its own checkpoints; then it is told."""
    draft = imported(pair(*lines))
    (link,) = configured(draft).links

    assert (link.mm2.offset_syncs, link.mm2.offset_lag_max) == (place, lag)
    assert ("emit.offset-syncs.enabled" in keys(draft, Impact.UNNEEDED)) == (not lines)


def test_old_names_count_where_the_new_ones_are_not_given() -> None:
    """topics.blacklist is topics.exclude; with both, the new one counts, as in MirrorMaker 2."""
    old = configured(imported(pair("topics.blacklist = x"))).links[0].topics
    both = imported(pair("topics.blacklist = x", "topics.exclude = y"))

    assert not old.matches(SourceTopic("x"))
    assert configured(both).links[0].topics.matches(SourceTopic("x"))
    assert about(both, "topics.blacklist").impact is Impact.CHANGED


def test_offsets_may_be_chosen() -> None:
    """With the offsets of the source groups keep theirs, and nothing begins anywhere but at the beginning."""
    text = pair("sync.group.offsets.enabled = true", "a.consumer.auto.offset.reset = latest")
    same = imported(text, offsets=OffsetsChoice.SAME)
    mapped = configured(imported(text, offsets=OffsetsChoice.MAPPED)).links[0]

    assert configured(same).links[0].groups.way == "identity"
    assert about(same, "a.consumer.auto.offset.reset").impact is Impact.CHANGED
    assert (mapped.topics.offsets, mapped.topics.start, mapped.groups.way) == (OffsetPolicy.MAPPED, LATEST, "mapped")


def test_what_mm2_does_unasked_is_done_or_told() -> None:
    """Heartbeats, checkpoints, configurations and access rules are on by default: whoever imports has it or hears."""
    lost, beside = ["sync.topic.acls.enabled"], ["b->a.enabled"]
    more = ["sync.topic.configs.enabled", "emit.heartbeats.enabled", "emit.checkpoints.enabled"]
    off = imported(pair(*(f"{key} = false" for key in (*lost, *more))))

    draft = imported(pair())
    assert sorted(keys(draft, Impact.LOST)) == sorted(beside + lost)
    link = configured(draft).links[0]
    assert (link.configs.sync, link.mm2.heartbeats, link.mm2.checkpoints) == (True, True, True)
    assert link.mm2.mirrors_heartbeats
    apart = configured(imported(pair("heartbeats.replication.enabled = false"))).links[0].mm2
    assert (apart.heartbeats, apart.mirrors_heartbeats) == (True, False)
    assert keys(off, Impact.LOST) == []
    link = configured(off).links[0]
    assert (link.configs.sync, link.mm2.heartbeats, link.mm2.checkpoints) == (False, False, False)


def test_what_is_kept_alike_beside_the_data_is_taken_over() -> None:
    """Excluded configurations, access rules, checkpoints of the groups that are carried, and how often."""
    link = configured(
        imported(
            pair(
                "sync.topic.acls.enabled = true",
                "config.properties.exclude = follower\\\\.replication\\\\.throttled\\\\.replicas, retention.*",
                "use.defaults.from = source",
                "sync.group.offsets.enabled = true",
                "emit.checkpoints.interval.seconds = 7",
                "sync.topic.configs.interval.seconds = 30",
            )
        )
    ).links[0]
    assert link.access.policy is AccessPolicy.READ_ONLY
    assert [str(pattern) for pattern in link.configs.exclude] == [
        "follower.replication.throttled.replicas",
        "retention*",
    ]
    assert (link.configs.use_defaults_from, link.configs.interval_s) == ("source", 30.0)
    other = configured(imported(pair("use.defaults.from = elsewhere"))).links[0]
    assert other.configs.use_defaults_from == "target"
    assert (link.mm2.checkpoints, link.mm2.checkpoints_interval_s) == (True, 7.0)


def test_every_setting_of_mm2_has_a_fate() -> None:
    """Whatever is not taken over says why, and what is lost says more than that it is."""
    for key, equivalent in {**EQUIVALENTS, **FAMILIES}.items():
        assert equivalent.path or equivalent.fate is not Fate.WRITTEN, key
        assert equivalent.why or equivalent.fate is not Fate.REPORTED, key


def test_a_setting_with_a_counterpart_is_written() -> None:
    """One line of the table is enough for a key of the link."""
    assert configured(imported(pair("refresh.topics.interval.seconds = 30"))).links[0].topics_interval_s == 30.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("refresh.topics.interval.seconds = soon", "refresh.topics.interval.seconds must be a whole number of seconds"),
        ("refresh.topics.interval.seconds = 0", "must be a whole number of seconds above 0"),
        ("sync.group.offsets.enabled = yes", "sync.group.offsets.enabled must be true or false"),
        ("sync.topic.acls.enabled = maybe", "sync.topic.acls.enabled must be true or false"),
        ("topics = ${env:TOPICS}", "topics refers to a value that cannot be found here"),
    ],
)
def test_values_nobody_could_use_are_refused(line: str, message: str) -> None:
    """The error names the key and the line."""
    with pytest.raises(ConfigError, match=f"^mm2.properties:5: .*{re.escape(message.partition(' ')[2])}"):
        imported(pair(line))


def test_topics_may_stand_elsewhere() -> None:
    """A list by reference is looked up while importing."""
    draft = imported(pair("topics = ${env:TOPICS}"), Bench(variables={"TOPICS": "orders"}))

    assert [str(each) for each in configured(draft).links[0].topics.include] == ["orders"]


def test_unknown_keys_are_told_without_their_values() -> None:
    """A misspelt key may hold a secret."""
    draft = imported(
        pair("a.sasl.pasword = hunter2", "a->b.sasl.jass.config = hunter2", "a.fooo = hunter2", "x = hunter2")
    )

    assert set(keys(draft, Impact.UNKNOWN)) == {"a->b.sasl.jass.config", "a.fooo", "line 8"}
    assert "a setting of the cluster" in about(draft, "a->b.sasl.jass.config").why
    assert "hunter2" not in repr([plain(notice) for notice in draft.notices if notice.key != "a.sasl.pasword"])
    assert about(draft, "a.sasl.pasword").value == ""


def test_identity_both_ways_is_told() -> None:
    """MirrorMaker 2 would send records in circles; Isthmus refuses such topics, which is worth knowing before."""
    draft = imported(SHIPPED + "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")

    assert "come back" in about(draft, "replication.policy.class").why


def test_links_of_like_names_have_different_ones() -> None:
    """a-b to c and a to b-c would both be a-b-c."""
    servers = "".join(f"{alias}.bootstrap.servers=x:1\n" for alias in ("a-b", "c", "a", "b-c"))
    text = f"clusters=a-b,c,a,b-c\n{servers}a-b->c.enabled=true\na->b-c.enabled=true\n"

    assert sorted(link.name for link in configured(imported(text)).links) == ["a-b-c", "a-b-c-2"]


def test_an_alias_nobody_can_have_is_refused() -> None:
    """An alias goes into names of files and topics: not every text can be one."""
    text = "clusters=../../etc,b\n../../etc.bootstrap.servers=x:1\nb.bootstrap.servers=y:1\n../../etc->b.enabled=true\n"

    with pytest.raises(ConfigError, match="cannot be the alias of a cluster"):
        imported(text)


def test_secrets_need_no_escaping_in_what_is_written() -> None:
    """Texts with dollars, quotes and line ends of YAML arrive as they are."""
    draft = imported(pair("groups = \\\\Qa${x}\\\\E, b\\u2028c, yes", "sync.group.offsets.enabled = true"))

    include = configured(draft).links[0].groups.include
    assert [include[0].matches("a${x}"), include[1].matches("b\u2028c"), include[2].matches("yes")] == [True] * 3
