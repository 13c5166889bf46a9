"""Values as JSON has them: what commands and the REST API have printed stays as it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import pytest

from isthmus.clusters.administration import TopicsReport
from isthmus.clusters.reassigning import Reassignment, ReassignmentState
from isthmus.groups.drill import PositionDrill
from isthmus.memory.forgetting import Forgotten
from isthmus.model.kafka.assignment import Assignment
from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.consumption import GroupsReport
from isthmus.model.kafka.description import Quorum, QuorumReplica
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import (
    Flat,
    FormMark,
    Hidden,
    IfKnown,
    PlainValue,
    computed_field,
    null_if_negative,
    plain,
    tenths,
)

FINDING = Finding(level=Level.WARN, subject="east", check="clock", message="late", hint="Set it.")
REPLICA = QuorumReplica(node_id=1, log_end=9, lag_records=0, lag_ms=None, endpoints=("h:1",))
OPEN = OpenTransaction(
    topic="t",
    partition=0,
    state=TransactionState.HANGING,
    producer_id=7,
    producer_epoch=1,
    coordinator_epoch=0,
    first_offset=3,
    held_records=2,
    since_ms=None,
)
_FINDING = {
    "code": "ISTH-CHECK-CLOCK",
    "level": str(Level.WARN),
    "subject": "east",
    "check": "clock",
    "message": "late",
    "hint": "Set it.",
}
_REPLICA = {"node_id": 1, "log_end": 9, "lag_records": 0, "lag_ms": None, "endpoints": ["h:1"]}


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (FINDING, _FINDING),
        (
            TopicsReport(cluster="east", partitions=(), findings=(FINDING,), not_told={"settings": "denied"}),
            {
                "cluster": "east",
                "partitions": [],
                "transactions": [],
                "settings": [],
                "findings": [_FINDING],
                "not_told": {"settings": "denied"},
            },
        ),
        (
            Reassignment(topic="t", partition=0, before=(1, 2), after=(2, 3), state=ReassignmentState.UNDERWAY),
            {"topic": "t", "partition": 0, "before": [1, 2], "after": [2, 3], "state": "under way", "detail": ""},
        ),
        (
            Forgotten(link="l", topic=TargetTopic("t"), documents=("a", "b")),
            {"link": "l", "topic": "t", "documents": ["a", "b"], "aborted": []},
        ),
        (Assignment("t", 0, (1, 2)), {"topic": "t", "partition": 0, "replicas": [1, 2]}),
        (BrokerSetting("a", "1", (1, 2)), {"name": "a", "value": "1", "brokers": [1, 2]}),
        (GroupsReport(cluster="east", groups=()), {"cluster": "east", "groups": [], "not_told": {}}),
        (
            Quorum(leader_id=1, leader_epoch=2, high_watermark=9, voters=(REPLICA,), observers=()),
            {"leader_id": 1, "leader_epoch": 2, "high_watermark": 9, "voters": [_REPLICA], "observers": []},
        ),
        (
            Change(loop="configs", subject="t", setting="s", before=None, after="1", problem=Problem("no", "do")),
            {
                "loop": "configs",
                "subject": "t",
                "setting": "s",
                "before": None,
                "after": "1",
                "problem": {"message": "no", "hint": "do", "code": None},
                "is_by_design": False,
            },
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_values_are_printed_as_ever(value: Any, printed: dict[str, Any]) -> None:
    """The names, their order and the forms of what is nothing but its fields."""
    assert json.dumps(plain(value)) == json.dumps(printed)


class _Colour(StrEnum):
    RED = "red"


def test_plain_goes_all_the_way_down() -> None:
    """Enums, sets, mappings with other keys, named tuples and values inside of values: all of it is JSON."""
    drill = PositionDrill(
        topic=SourceTopic("t"),
        partition=0,
        source_position=1,
        target_position=2,
        compared=0,
        skipped=0,
        read_again=0,
        waiting=0,
    )
    found = plain({1: (drill, _Colour.RED, frozenset({3})), "none": None, "open": [OPEN]})

    assert found["1"][0]["source_position"] == 1
    assert found["1"][1:] == ["red", [3]]
    assert found["none"] is None
    assert (found["open"][0]["state"], found["open"][0]["producer_id"]) == (str(TransactionState.HANGING), 7)
    assert type(found["open"][0]["state"]) is str
    json.dumps(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    row: int
    seat: Annotated[int, null_if_negative] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stay:
    nights: int
    meals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guest(PlainValue):
    name: Annotated[str, "guest"]
    age_s: Annotated[float | None, "age_seconds", tenths] = None
    secret: Hidden[str] = ""
    place: Flat[_Place | None] = None
    former: Annotated[_Stay | None, FormMark.EMBEDDED] = None
    note: IfKnown[str] = None

    @computed_field
    def loud(self) -> Annotated[bool, "is_loud"]:
        return self.name.isupper()

    @computed_field(before="age_s")
    def letters(self) -> int:
        return len(self.name)


def test_the_type_of_a_field_says_how_it_stands_in_json() -> None:
    """Its key, its conversion, whether it stands there at all; and properties stand where they are to be."""
    nowhere = _Guest(name="ANN", age_s=1.25)
    assert list(nowhere.as_dict().items()) == [
        ("guest", "ANN"),
        ("letters", 3),
        ("age_seconds", 1.2),
        ("nights", None),
        ("meals", []),
        ("is_loud", True),
    ]
    somewhere = _Guest(name="bob", place=_Place(row=1), former=_Stay(nights=2), note="late")
    assert list(plain(somewhere).items()) == [
        ("guest", "bob"),
        ("letters", 3),
        ("age_seconds", None),
        ("row", 1),
        ("seat", None),
        ("nights", 2),
        ("meals", []),
        ("note", "late"),
        ("is_loud", False),
    ]
