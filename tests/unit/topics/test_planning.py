"""From observations to plans, by rules alone."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.outlook import Outlook
from isthmus.memory.claims import Claim, Claims, ToldClaims
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription, TopicIds
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import LaneState
from isthmus.model.link import DistributorRole, Transactions
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain
from isthmus.topics.aborted import Abilities, treatment
from isthmus.topics.changes import topic_changes
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.planning import EXPIRATION_MS_MAX, at_start, plan_link
from isthmus.topics.preflight import TopicPair
from testing.values.names import NAMES, ORDERS, SOURCE_ORDERS
from testing.values.planned import LINK, NO_DEFAULTS, configs, observed, topic


def planned(pair: TopicPair, recorded: Mapping[TargetTopic, TopicIds] | None = None) -> TopicPlan:
    """The plan of the one topic."""
    (plan,) = plan_link(observed(pair), Claims(), recorded).topics
    return plan


def test_same_cluster_on_both_sides_is_refused() -> None:
    """Aliases do not matter, cluster ids do."""
    plan = plan_link(observed(TopicPair(name=ORDERS, source=topic(), target=None), target_id="E"), Claims())
    assert plan.problem is not None
    assert plan.topics == ()


def test_topic_that_could_not_be_observed_is_refused_with_the_reason() -> None:
    """What kept the topic from being seen is the reason."""
    problem = Problem("no right", "grant it")
    (plan,) = plan_link(observed(None, names=NAMES, problems={ORDERS: problem}), Claims()).topics
    assert (plan.action, plan.reasons) == (Action.REFUSE, (problem,))


def test_claimed_topic_is_refused() -> None:
    """The second link into the same target topic gets nothing."""
    claims, seen = Claims(), observed(TopicPair(name=ORDERS, source=topic(), target=None))
    assert plan_link(seen, claims).topics[0].reasons == ()
    other = replace(seen, link=replace(LINK, name="other"), source_id="X")
    assert "east-west" in plan_link(other, claims).topics[0].reasons[0].message


def test_lanes_are_those_both_sides_have() -> None:
    """Only partitions the target has already get lanes; the others come after they were added."""
    pair = TopicPair(
        name=ORDERS,
        source=topic({"cleanup.policy": "compact"}, partitions=3),
        target=topic({"cleanup.policy": "compact", "max.message.bytes": "5000"}, partitions=2),
        source_ranges={p: LogRange(0, 5, 5) for p in range(3)},
        target_ranges={0: LogRange(0, 0, 0), 1: LogRange(0, 9, 9)},
        outlooks={1: Outlook(state=LaneState.DIVERGED, problem=Problem("it ends beyond"))},
    )
    plan = planned(pair)
    assert plan.action is Action.ADD_PARTITIONS
    (lane,) = plan.lanes
    assert (lane.partition, lane.batch_bytes_max, lane.is_compacted) == (0, 5000, True)
    assert pair.target is not None
    assert (lane.source_topic_id, lane.target_topic_id) == (pair.source.topic_id, pair.target.topic_id)


def test_other_source_topic_than_before_is_refused() -> None:
    """The ids that were recorded when mirroring began tell a topic that was created again."""
    source, target = topic(), topic()
    pair = TopicPair(name=ORDERS, source=source, target=target)
    same = {ORDERS: TopicIds(source_topic=SOURCE_ORDERS, source=source.topic_id, target=target.topic_id)}
    assert planned(pair, same).reasons == ()
    for ids in (
        TopicIds(source_topic=SOURCE_ORDERS, source=uuid.uuid4(), target=target.topic_id),
        TopicIds(source_topic=SOURCE_ORDERS, source=source.topic_id, target=uuid.uuid4()),
    ):
        assert planned(pair, {ORDERS: ids}).state is LaneState.TOPIC_RECREATED
    gone = planned(TopicPair(name=ORDERS, source=source, target=None), same)
    assert (gone.state, gone.creation) == (LaneState.TOPIC_RECREATED, None)


def test_what_was_to_be_forgotten_counts_where_it_stands_in_the_way() -> None:
    """A topic that comes back under its name is another one, which is said at once with the command that mends it. The
    same one, one whose copy is gone or another, and one that is still missing are as if they had never been mirrored.
    """
    source, target = topic(), topic()
    pair = TopicPair(name=ORDERS, source=source, target=target)
    former = TopicIds(source_topic=SOURCE_ORDERS, source=uuid.uuid4(), target=target.topic_id, is_forgotten=True)
    found = planned(pair, {ORDERS: former})
    assert found.state is LaneState.TOPIC_RECREATED
    assert f"isthmus link recover {LINK.name} --topic {ORDERS}" in found.reasons[0].hint
    for forgotten, there in (
        (replace(former, source=source.topic_id), target),
        (replace(former, target=uuid.uuid4()), target),
        (former, None),
    ):
        assert planned(replace(pair, target=there), {ORDERS: forgotten}).reasons == ()
    seen = replace(observed(pair), pairs={}, problems={ORDERS: Problem("no such topic")}, absent=frozenset({ORDERS}))
    gone, kept = ({ORDERS: replace(former, is_forgotten=is_forgotten)} for is_forgotten in (True, False))
    assert plan_link(seen, Claims(), gone).topics[0].state is LaneState.SOURCE_UNAVAILABLE
    assert plan_link(seen, Claims(), kept).topics[0].state is LaneState.SOURCE_DELETED


def test_what_is_deleted_with_its_source_is_a_change() -> None:
    """Where the link says so, and the topic is not included by its name; else it stays as it is."""
    pair = TopicPair(name=ORDERS, source=topic(), target=topic())
    known = {ORDERS: TopicIds(source_topic=SOURCE_ORDERS, source=uuid.uuid4(), target=uuid.uuid4())}
    named = replace(LINK.topics, include=(TopicPattern.parse(SOURCE_ORDERS),))
    for link, action in (
        (LINK, Action.KEEP),
        (replace(LINK, on_source_deleted="delete"), Action.DELETE),
        (replace(LINK, on_source_deleted="delete", topics=named), Action.KEEP),
    ):
        seen = replace(observed(pair), link=link, pairs={}, absent=frozenset({ORDERS}))
        (found,) = plan_link(seen, Claims(), known).topics
        assert (found.action, found.is_copied, found.lanes) == (action, False, ())
        changes = topic_changes([found], {})
        assert [(change.before, change.after) for change in changes] == [(ORDERS, None)] * (action is Action.DELETE)


def test_topic_ids_that_nobody_has_prove_nothing() -> None:
    """Brokers before KIP-516 give nil ids: they are not held against anything."""
    source, target = topic(), topic()
    ids = TopicIds(source_topic=SOURCE_ORDERS, source=uuid.UUID(int=0), target=uuid.UUID(int=0))
    assert planned(TopicPair(name=ORDERS, source=source, target=target), {ORDERS: ids}).reasons == ()


def test_run_begins_anew_where_the_target_is_another() -> None:
    """Ids count at the start of a run only for the target topic that was written."""
    source, target = topic(), topic()
    ids = {ORDERS: TopicIds(source_topic=SOURCE_ORDERS, source=source.topic_id, target=target.topic_id)}
    assert at_start(observed(TopicPair(name=ORDERS, source=topic(), target=target)), ids) == ids
    assert at_start(observed(TopicPair(name=ORDERS, source=source, target=topic())), ids) == {}
    assert at_start(observed(TopicPair(name=ORDERS, source=source, target=None)), ids) == {}
    assert at_start(observed(None), ids) == ids


def recommendation(plan: LinkPlan) -> str:
    """The hints of all recommendations."""
    return " ".join(problem.hint for problem in (*plan.recommendations, *plan.advice))


def test_expiration_is_recommended_by_the_age_of_records() -> None:
    """The target should remember producers for as long as the source keeps records, if it can."""
    young = observed(TopicPair(name=ORDERS, source=topic(), target=None))
    assert recommendation(plan_link(young, Claims())) == ""
    week = TopicPair(name=ORDERS, source=topic({"retention.ms": "604800000"}), target=None)
    assert "producer.id.expiration.ms=604800000" in recommendation(plan_link(observed(week), Claims()))
    endless = TopicPair(name=ORDERS, source=topic({"cleanup.policy": "compact"}), target=None)
    assert f"={EXPIRATION_MS_MAX} " in recommendation(plan_link(observed(endless), Claims()))
    (told,) = plan_link(observed(endless), Claims()).advice
    assert told.message.endswith("source topics keep records for ever")
    year = TopicPair(name=ORDERS, source=topic({"retention.ms": str(365 * 86_400_000)}), target=None)
    (told,) = plan_link(observed(year), Claims()).advice
    assert told.message.endswith("source topics keep records for up to 365 days")
    assert f"={EXPIRATION_MS_MAX} " in told.hint
    unseen = observed(endless, expiration_ms=None)
    assert recommendation(plan_link(unseen, Claims())) == ""


def test_a_topic_from_a_cluster_that_nobody_here_knows_is_copied_with_a_warning() -> None:
    """It says which link of others brings it, and from which cluster."""
    claims = Claims()
    there = Claim(link="far", source_topic=SourceTopic("o"), target_topic=ORDERS, source_id="X", target_id="E")
    claims.hear(ToldClaims("E", lambda _: True, (there,)))
    plan = plan_link(observed(TopicPair(name=ORDERS, source=topic(), target=None)), claims)
    assert [each.action for each in plan.topics] == [Action.CREATE]
    (problem,) = plan.recommendations
    assert "link far brings orders from a cluster" in problem.message
    assert "cluster id X" in problem.message


def test_transactions_ended_by_coordinators_are_advised_against() -> None:
    """Where there is a risk in that, and a copied topic has transactions, the way out is named."""
    pair = TopicPair(name=ORDERS, source=topic(), target=None)
    verified = treatment(AbortedPolicy.COPY, Abilities(writes_markers=True, verifies=True, tells=True), "west")
    assert recommendation(plan_link(observed(pair, aborted=verified), Claims())) == ""
    seen = observed(pair, aborted=verified, transactional=frozenset({"orders", "left-out"}))
    mapped = replace(LINK, topics=replace(LINK.topics, offsets=OffsetPolicy.MAPPED))
    assert plan_link(replace(seen, link=mapped), Claims()).advice == ()
    (problem,) = plan_link(seen, Claims()).advice
    assert problem.message.startswith("orders is written in transactions")
    assert "transactions.aborted" in problem.hint
    assert "transaction.partition.verification.enable=false" in problem.hint


@pytest.mark.parametrize(
    ("wanted", "verifies", "lanes"),
    [
        (AbortedPolicy.AUTO, True, AbortedPolicy.OMIT),
        (AbortedPolicy.AUTO, False, AbortedPolicy.AUTO),
        (AbortedPolicy.COPY, True, AbortedPolicy.COPY),
        (AbortedPolicy.OMIT, False, AbortedPolicy.OMIT),
    ],
)
def test_lanes_do_what_the_plan_says_of_aborted_records(
    wanted: AbortedPolicy, verifies: bool, lanes: AbortedPolicy
) -> None:
    """Where they are copied as that is exact, lanes look themselves: brokers may begin to verify meanwhile."""
    pair = TopicPair(name=ORDERS, source=topic(), target=topic())
    abilities = Abilities(writes_markers=True, verifies=verifies, tells=True)
    link = replace(LINK, transactions=Transactions(aborted=wanted))
    plan = plan_link(observed(pair, link=link, aborted=treatment(wanted, abilities, "west")), Claims())
    assert [lane.aborted for lane in plan.topics[0].lanes] == [lanes]
    assert plain(plan)["aborted"] == ("omit" if lanes is AbortedPolicy.OMIT else "copy")


@given(
    own=configs,
    defaults=configs,
    starts=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
    brokers=st.integers(1, 4),
)
def test_what_is_created_is_accepted(
    own: dict[str, str], defaults: dict[str, str], starts: list[int], brokers: int
) -> None:
    """Whatever the source and the target's defaults, a target created as planned is mirrored into."""
    source = topic(own, partitions=len(starts), replicas=3)
    known = NO_DEFAULTS | {name: ConfigEntry(value) for name, value in defaults.items()}
    ranges = {p: LogRange(start, start + 5, start + 5) for p, start in enumerate(starts)}
    pair = TopicPair(name=ORDERS, source=source, target=None, source_ranges=ranges)
    seen = replace(observed(pair), defaults={ORDERS: known}, target_brokers=brokers)
    (plan,) = plan_link(seen, Claims()).topics
    assert plan.action is Action.CREATE
    assert plan.creation is not None
    assert plan.creation.replication_factor <= brokers
    created = replace(
        topic(plan.creation.configs, partitions=len(starts)),
        configs=known | {n: ConfigEntry(v, ConfigSource.DYNAMIC_TOPIC) for n, v in plan.creation.configs.items()},
    )
    empty = {p: LogRange(0, 0, 0) for p in range(len(starts))}
    again = planned(replace(pair, target=created, target_ranges=empty))
    assert (again.action, again.reasons) == (Action.COPY, ())
    assert len(again.lanes) == len(starts)


def test_topics_are_changed_in_the_words_of_all_loops() -> None:
    """What is created, enlarged or settled, and what cannot be copied, each as one change; a copy alone is none."""
    wide = topic({"retention.ms": "7"}, partitions=3)

    def changes(
        plan: TopicPlan, target: TopicDescription | None
    ) -> list[tuple[str, str, str | None, str | None, bool]]:
        pairs = {ORDERS: TopicPair(name=ORDERS, source=wide, target=target)}
        found = topic_changes([plan], pairs)
        assert {change.subject for change in found} <= {"topic orders"}
        return [(c.loop, c.setting, c.before, c.after, c.problem is not None) for c in found]

    created = changes(planned(TopicPair(name=ORDERS, source=wide, target=None)), None)
    assert created[0] == ("topics", "partitions", None, "3", False)
    assert ("topics", "retention.ms", None, "7", False) in created
    narrow = topic(partitions=1)
    enlarged = planned(TopicPair(name=ORDERS, source=wide, target=narrow))
    assert changes(enlarged, narrow) == [("topics", "partitions", "1", "3", False)]
    settled = replace(enlarged, action=Action.COPY, settles={"retention.ms": None})
    assert changes(settled, narrow) == [("topics", "retention.ms", "3600000", None, False)]
    assert changes(replace(settled, settles={}), narrow) == []
    refused = replace(settled, action=Action.REFUSE, settles={}, reasons=(Problem("no", "do"),))
    assert changes(refused, narrow) == [("topics", "topic", None, None, True)]


def test_a_leaf_gets_what_there_still_is_of_what_it_lacks() -> None:
    """What the source has deleted since the leaf was left keeps nothing else from it; elsewhere such a lane stops."""
    pair = TopicPair(
        name=ORDERS, source=topic(), target=topic(), source_ranges={0: LogRange(0, 9, 9)}, target_ranges={}
    )
    for ends, goes_on in ((None, False), ((), True)):
        role = DistributorRole(tree="t", level=2, leaves=("west", "south"), ends=ends)
        mapped = TopicSettings(include=(TopicPattern.parse("*"),), offsets=OffsetPolicy.MAPPED)
        link = replace(LINK, topics=mapped, distributor=role)
        (plan,) = plan_link(observed(pair, link=link), Claims(), None).topics
        assert [lane.continues_after_gap for lane in plan.lanes] == [goes_on]
