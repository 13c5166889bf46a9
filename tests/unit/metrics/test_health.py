"""What orchestrators are told."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from isthmus.metrics.health import STUCK_S, health, livez, readyz
from isthmus.metrics.observation import Observation
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain
from testing.values.standing import link_at, topic_at

AWAY = Problem("cluster east does not answer", "It is tried again.", "ISTH-UNREACHABLE")


def seen(*states: LinkState) -> Observation:
    """Links in these states, seen just now."""
    away = (LinkState.UNAVAILABLE, LinkState.FAILED)
    return Observation(
        at_s=100.0,
        links=tuple(
            link_at(topic_at("orders"), link=f"link-{n}", state=state, problem=AWAY if state in away else None)
            for n, state in enumerate(states)
        ),
    )


@pytest.mark.parametrize("state", LinkState)
def test_trouble_of_a_link_is_no_reason_to_start_anew(state: LinkState) -> None:
    """Liveness looks at the controller alone: a process that is ended helps no cluster to its feet."""
    assert livez(seen(state), 100.0 + STUCK_S, 0.0).status is HTTPStatus.OK
    assert livez(seen(state), 101.0 + STUCK_S, 0.0).status is HTTPStatus.SERVICE_UNAVAILABLE


def test_a_run_that_begins_lives_and_is_not_ready() -> None:
    """Unless it never comes to say anything."""
    assert livez(None, STUCK_S, 0.0).status is HTTPStatus.OK
    assert livez(None, STUCK_S + 1, 0.0).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert readyz(None).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert plain(health(None, 1.0, 0.0).body)["status"] == "starting"


@pytest.mark.parametrize(
    ("states", "is_ready", "word"),
    [
        ((), True, "healthy"),
        ((LinkState.ACTIVE, LinkState.PAUSED), True, "healthy"),
        ((LinkState.ACTIVE, LinkState.STARTING), False, "starting"),
        ((LinkState.STANDBY,), False, "starting"),
        ((LinkState.ACTIVE, LinkState.UNAVAILABLE), False, "unhealthy"),
        ((LinkState.FAILED,), False, "unhealthy"),
        ((LinkState.STOPPED,), False, "unhealthy"),
    ],
)
def test_ready_once_every_link_is_run(states: tuple[LinkState, ...], is_ready: bool, word: str) -> None:
    """Each that is not is named with its reason; /health says the same in one word."""
    observation = seen(*states)
    answer, told = readyz(observation), health(observation, 100.0, 0.0)
    assert (answer.status is HTTPStatus.OK) == is_ready
    assert plain(told.body)["status"] == word
    assert told.status == (HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)
    if not is_ready:
        number = next(n for n, state in enumerate(states) if state not in (LinkState.ACTIVE, LinkState.PAUSED))
        assert plain(answer.body)["reasons"][0].startswith(f"link link-{number} is {states[number]}")
        assert plain(answer.body)["reasons"][0] in plain(told.body)["message"]


def test_health_tells_of_each_link() -> None:
    """State, lag, tasks and problem, under the names that the other commands use."""
    (link,) = plain(health(seen(LinkState.UNAVAILABLE), 100.0, 0.0).body)["links"]
    assert (link["link"], link["state"], link["lag_records"], link["topics"]) == ("link-0", "UNAVAILABLE", 0, 1)
    assert link["tasks"] == {"data": "ACTIVE", "groups": "NOT_CONFIGURED"}
    assert link["problem"] is not None
    assert link["problem"]["code"] == "ISTH-UNREACHABLE"


def test_a_stuck_controller_is_unhealthy() -> None:
    """With 500, as workers of Kafka Connect say it."""
    answer = health(seen(LinkState.ACTIVE), 200.0, 0.0)
    assert (answer.status, plain(answer.body)["status"]) == (HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy")
    assert "has reported nothing for 100 s" in plain(answer.body)["message"]


@pytest.mark.parametrize("state", [LinkState.IMPAIRED, LinkState.PAUSED])
def test_topics_in_trouble_are_named_and_start_nothing_anew(state: LinkState) -> None:
    """Of a link that goes on, and of one that is paused: the message counts its topics by state."""
    topics = [topic_at("orders"), topic_at("clicks", state=LaneState.DIVERGED)]
    answer = health(Observation(at_s=100.0, links=(link_at(*topics, state=state),)), 100.0, 0.0)
    assert (answer.status, plain(answer.body)["status"]) == (HTTPStatus.OK, "impaired")
    assert plain(answer.body)["message"] == "link east-west: 1 topic DIVERGED"
    assert plain(answer.body)["links"][0]["topics_in_trouble"] == 1
