"""What follows from how a cluster stands."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.model.kafka import health
from isthmus.model.kafka.description import BrokerDescription, Quorum, QuorumReplica
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.partitions import PartitionState, broker_loads
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from tests.unit.model.topics import partition

NOW_MS = 1_800_000_000_000


def found(*states: PartitionState) -> list[Finding]:
    """The findings about partitions of a cluster `east`."""
    return list(health.partition_findings("east", states))


def test_cluster_id_that_is_none() -> None:
    """What answers with something else than a cluster id is not trusted."""
    assert list(health.cluster_id_findings("east", "o56lAA9DSDyno31XKQeYNg")) == []
    (finding,) = health.cluster_id_findings("east", "x" * 23)
    assert finding.level is Level.ERROR


def test_healthy_partitions_are_not_mentioned() -> None:
    """There is nothing to say about what is as it should be."""
    assert found(partition(), partition(number=1)) == []


@pytest.mark.parametrize(
    ("state", "check", "level", "told", "advised"),
    [
        (partition(leader=-1, isr=(2,)), "offline", Level.ERROR, "acks 0, 1 and all alike wait", "in sync last: 2"),
        (
            partition(isr=(1,)),
            "under-min-isr",
            Level.ERROR,
            "acks=all are refused (NOT_ENOUGH_REPLICAS)",
            "brokers 2, 3",
        ),
        (partition(isr=(1, 2)), "under-replicated", Level.WARN, "so 0 more may fail", "brokers 3"),
        (
            partition(replicas=(1,), isr=(1,)),
            "fewer-replicas-than-min-isr",
            Level.WARN,
            "1 replica where min.insync.replicas is 2",
            "Lower min.insync.replicas",
        ),
        (
            partition(leader=2),
            "leader-not-preferred",
            Level.WARN,
            "led by brokers 2 in the place of the preferred 1: acks 0, 1 and all work as ever",
            "isthmus cluster elect-leaders east --preferred --topic orders",
        ),
        (
            partition(leader=2, replicas=(1, 2), isr=(2,), min_isr=1),
            "leader-not-preferred",
            Level.WARN,
            "the preferred 1",
            "Bring brokers 1 back",
        ),
    ],
    ids=str,
)
def test_each_condition_says_what_it_means_for_producers(
    state: PartitionState, check: str, level: Level, told: str, advised: str
) -> None:
    """Acks 0, 1 and all are spoken of, and so is what to do."""
    finding = next(finding for finding in found(state) if finding.check == check)

    assert (finding.level, finding.subject) == (level, "east/orders")
    assert told in finding.message
    assert advised in finding.hint
    assert "acks" in finding.message


def test_partitions_of_a_topic_are_told_together() -> None:
    """One finding for each condition of a topic, with its partitions as ranges, the worst condition first."""
    states = [partition(isr=(1, 2), number=number) for number in (0, 1, 2, 5)]
    worst = partition(leader=-1, number=9)

    findings = found(*states, worst)

    assert [finding.check for finding in findings] == ["offline", "under-replicated"]
    assert findings[1].message.startswith("partitions 0-2, 5 with")
    assert findings[0].message.startswith("partition 9 ")


def test_brokers_that_lead_less_than_they_should() -> None:
    """Kafka's own measure: how many of those that prefer a broker it does not lead."""
    states = [partition(leader=2, number=number) for number in range(2)]
    states += [partition(leader=1, number=number) for number in range(2, 10)]

    (finding,) = health.skew_findings("east", broker_loads(states, [1, 2, 3])[:1])

    assert finding.check == "leader skew"
    assert "not 2 of the 10 that prefer it (20 %)" in finding.message


def test_assignments_that_ask_too_much_of_one_broker() -> None:
    """No election helps where one broker is everybody's first choice."""
    states = [partition(number=number) for number in range(12)]

    (finding,) = health.skew_findings("east", broker_loads(states, [1, 2, 3]))

    assert "preferred leader of 12 of 12 partitions, 4 would be even" in finding.message
    assert list(health.skew_findings("east", ())) == []


def quorum(*lags_ms: int | None, leader: int | None = 1) -> Quorum:
    """Controllers 1, 2, ... with these lags, `None` for one that was never seen."""
    voters = tuple(
        QuorumReplica(node, None if lag is None else 50, 0, lag) for node, lag in enumerate(lags_ms, start=1)
    )
    return Quorum(leader_id=leader, leader_epoch=3, high_watermark=50, voters=voters, observers=())


@pytest.mark.parametrize(
    ("seen", "levels"),
    [
        (quorum(0, 400, 400), []),
        (quorum(0), []),
        (quorum(0, 400, 60_000), [Level.ERROR]),
        (quorum(0, 1, 1, 1, None), [Level.WARN]),
        (quorum(0, 1, 1, leader=None), [Level.ERROR]),
    ],
    ids=["well", "alone", "two of three", "four of five", "no leader"],
)
def test_quorum_is_as_healthy_as_its_margin(seen: Quorum, levels: list[Level]) -> None:
    """A voter that is away matters the more the fewer others may fail."""
    assert [finding.level for finding in health.quorum_findings("east", seen)] == levels


def test_fenced_brokers_are_told() -> None:
    """A broker that is registered and serves nobody is named."""
    brokers = [BrokerDescription(1, "a", 9092, None), BrokerDescription(2, "b", 9092, None, is_fenced=True)]
    (finding,) = health.broker_findings("east", brokers)
    assert "broker 2 is fenced" in finding.message


def transaction(state: TransactionState, **changes: Any) -> OpenTransaction:
    """A transaction of producer 7 that began an hour ago and may take a minute."""
    values = {"since_ms": NOW_MS - 3_600_000, **changes}
    return OpenTransaction("orders", 3, state, 7, 0, 4, 100, 25, **values)


def test_hanging_transaction_is_an_error() -> None:
    """Who holds the last stable offset where and since when is told, and how to end it."""
    (finding,) = health.transaction_findings(
        "l", [transaction(TransactionState.HANGING)], now_ms=NOW_MS, cluster="east"
    )

    assert (finding.level, finding.subject, finding.check) == (Level.ERROR, "l/orders", "hanging transaction")
    assert "producer 7 (epoch 0) holds the last stable offset at 100 for 60 min, and 25 records" in finding.message
    assert "abort --topic orders --partition 3 --start-offset 100" in finding.hint


def test_open_transaction_is_normal_until_it_is_overdue() -> None:
    """A transaction in its time is nobody's business; one beyond its timeout is its coordinator's."""
    young = transaction(TransactionState.OPEN, transactional_id="t", started_ms=NOW_MS - 60_000, timeout_ms=60_000)
    old = young._replace(started_ms=NOW_MS - 120_000)

    assert list(health.transaction_findings("east", [young], now_ms=NOW_MS)) == []
    (finding,) = health.transaction_findings("east", [old], now_ms=NOW_MS)
    assert (finding.level, finding.check) == (Level.WARN, "open transaction")
    assert "transaction t of producer 7" in finding.message


def test_transaction_nobody_tells_of_is_no_accusation() -> None:
    """Where coordinators keep silent a transaction is not called hanging."""
    assert list(health.transaction_findings("east", [transaction(TransactionState.UNKNOWN)], now_ms=NOW_MS)) == []
