"""Plans for partitions, and their files."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.config.assignments import read_assignments, write_assignments
from isthmus.errors import ConfigError
from isthmus.model.kafka.assignment import Assignment, even_assignments, moves_to
from isthmus.model.kafka.partitions import PartitionState


def state(number: int, *replicas: int) -> PartitionState:
    """A partition on these brokers."""
    return PartitionState("orders", number, replicas[0], 0, replicas, replicas)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[PartitionState], dict[int, str | None]]:
    """Partitions on some brokers, and brokers with racks: some of the former may be gone, others may be new."""
    racks = draw(st.dictionaries(st.integers(0, 9), st.none() | st.sampled_from("abc"), min_size=2, max_size=6))
    count = draw(st.integers(1, len(racks)))
    one = st.lists(st.integers(0, 9), min_size=count, max_size=count, unique=True)
    return [state(number, *on) for number, on in enumerate(draw(st.lists(one, max_size=20)))], racks


@given(clusters(), st.integers(1, 2))
def test_a_plan_is_sound(cluster: tuple[list[PartitionState], dict[int, str | None]], replicas: int) -> None:
    """As many replicas as wanted, each on another broker, and on none that is not there."""
    partitions, racks = cluster
    planned = even_assignments(partitions, racks, replicas=replicas)
    assert [(one.topic, one.partition) for one in planned] == [(one.topic, one.partition) for one in partitions]
    for one in planned:
        assert len(set(one.replicas)) == replicas
        assert set(one.replicas) <= racks.keys()


@given(clusters())
def test_a_plan_is_even(cluster: tuple[list[PartitionState], dict[int, str | None]]) -> None:
    """Where no racks are in the way brokers differ by one replica at most, and none leads more than its share."""
    partitions, racks = cluster
    planned = even_assignments(partitions, dict.fromkeys(racks))
    load = Counter(dict.fromkeys(racks, 0)) + Counter(broker for one in planned for broker in one.replicas)
    loads = [load[broker] for broker in racks]
    assert max(loads) - min(loads) <= 1
    # A broker with few replicas cannot lead many.
    leads = Counter(one.replicas[0] for one in planned)
    assert max(leads.values(), default=0) <= math.ceil(len(planned) / len(racks)) + 1


@given(clusters())
def test_a_plan_that_was_carried_out_moves_nothing(cluster: tuple[list[PartitionState], dict[int, str | None]]) -> None:
    """No replica is copied a second time."""
    partitions, racks = cluster
    planned = even_assignments(partitions, racks)
    after = [state(one.partition, *one.replicas) for one in planned]
    again = even_assignments(after, racks)
    assert all(not move.comes for move in moves_to(again, after))


def test_little_is_moved() -> None:
    """A broker that comes gets its share; what stays stays where it is."""
    partitions = [state(number, 1, 2) for number in range(6)]
    planned = even_assignments(partitions, {1: None, 2: None, 3: None})
    moves = moves_to(planned, partitions)
    assert sum(len(move.comes) for move in moves) == 4
    assert {broker for move in moves for broker in move.comes} == {3}


def test_replicas_go_to_other_racks() -> None:
    """A second replica is put where the first one's rack is not, though a broker there bears more."""
    partitions = [state(0, 1), state(1, 3), state(2, 3)]
    planned = even_assignments(partitions, {1: "a", 2: "a", 3: "b"}, replicas=2)
    assert all(set(one.replicas) & {1, 2} and 3 in one.replicas for one in planned)


def test_too_few_brokers_are_refused() -> None:
    """It says what to change."""
    with pytest.raises(ConfigError, match="3 replicas cannot be on 2 brokers"):
        even_assignments([state(0, 1)], {1: None, 2: None}, replicas=3)


def test_files_are_those_of_kafkas_tool() -> None:
    """What is written is read again, and what that tool adds is understood."""
    given_ = (Assignment("orders", 0, (1, 2)), Assignment("a.b", 3, (2,)))
    text = write_assignments(given_)
    assert read_assignments(text, "plan") == given_
    raw = json.loads(text)
    raw["partitions"][0]["log_dirs"] = ["any", "any"]
    assert read_assignments(json.dumps(raw), "plan") == given_


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no file of assignments"),
        ("[]", "is no file of assignments"),
        ('{"version": 2, "partitions": []}', "version"),
        ('{"version": 1, "partitions": []}', "partitions"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "names a broker twice"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/data"]}]}', "log_dirs"),
        ('{"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}', "partition"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}, '
            '{"topic": "a", "partition": 0, "replicas": [2]}]}',
            "names a-0 twice",
        ),
    ],
)
def test_other_files_are_refused(text: str, says: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match=says):
        read_assignments(text, "plan.json")


def test_partitions_that_are_not_there_are_refused() -> None:
    """A plan is of a moment."""
    with pytest.raises(ConfigError, match="no partition orders-7"):
        moves_to([Assignment("orders", 7, (1,))], [state(0, 1)])
    assert moves_to([Assignment("orders", 0, (1,))], [state(0, 1)]) == ()
