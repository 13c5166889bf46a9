"""What an answer about a topic for dead letters shows, and what it does not."""

from __future__ import annotations

import uuid

import pytest

from isthmus.errors import BrokerRefused, NotAuthorized, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import AllowedOperations, Operation
from isthmus.model.kafka.topic import ConfigEntry, TopicDescription
from isthmus.topics.checks.letters import find_flaws, find_lacking, refusal_of


def described(**configs: str) -> TopicDescription:
    """A topic with these settings in force."""
    return TopicDescription(
        name="letters",
        topic_id=uuid.uuid4(),
        partition_count=1,
        replication_factor=1,
        configs={name.replace("_", "."): ConfigEntry(value) for name, value in configs.items()},
    )


@pytest.mark.parametrize(
    ("code", "allowed", "lacking"),
    [
        (codes.NONE, {Operation.READ, Operation.WRITE}, ""),
        (codes.NONE, {Operation.READ}, "WRITE"),
        (codes.NONE, set(), "READ"),
        (codes.NONE, None, ""),
        (codes.LEADER_NOT_AVAILABLE, None, ""),
        (codes.TOPIC_AUTHORIZATION_FAILED, None, "READ"),
    ],
)
def test_a_broker_that_does_not_know_the_topic_yet_shows_no_right_missing(
    code: int, allowed: set[Operation] | None, lacking: str
) -> None:
    """Another one has answered that it is there."""
    assert find_lacking(code, None if allowed is None else AllowedOperations(allowed)) == lacking


def test_what_passes_refuses_no_topic() -> None:
    """A coordinator that is silent for a while would stop all lanes of a link."""
    assert refusal_of(Unreachable("the coordinator does not answer")) is None
    denied = refusal_of(NotAuthorized("WRITE is missing"))
    assert denied is not None
    assert denied.code == NotAuthorized.error_code
    assert refusal_of(BrokerRefused("no", code=44, name="POLICY_VIOLATION")) is not None


def test_settings_that_harm_letters_are_named() -> None:
    """A topic that was there before is used as it is."""
    good = described(cleanup_policy="delete", message_timestamp_type="CreateTime", max_message_bytes="3000")
    bad = described(cleanup_policy="compact,delete", message_timestamp_type="LogAppendTime", max_message_bytes="2999")
    assert list(find_flaws(good, good)) == []
    hints = [each.hint for each in find_flaws(bad, good)]
    assert [hint.split("=")[0].split()[1] for hint in hints[:2]] == ["cleanup.policy", "message.timestamp.type"]
    assert "Raise max.message.bytes of topic letters" in hints[2]
