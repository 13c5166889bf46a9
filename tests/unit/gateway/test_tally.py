"""What a gateway counts and tells: clients by kind, several processes together, and health."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from isthmus.gateway.conversation import UNKNOWN, Software
from isthmus.gateway.tally import GatewayTally
from isthmus.gateway.telling import Board, GatewayAnswers
from isthmus.metrics.catalogue import GATEWAY_METRICS
from isthmus.model.gateways.figures import ClientFigures, GatewayFigures, Refusal
from isthmus.model.text.plain import plain

JAVA = Software("apache-kafka-java", "4.4.0")


@dataclass
class Passing:
    """A connection that has passed something."""

    software: Software = JAVA
    requests: int = 2
    request_bytes: int = 10
    answer_bytes: int = 20


def test_clients_are_counted_by_what_they_say_that_they_are() -> None:
    """What has passed stays counted when a connection is gone."""
    tally, left, there = GatewayTally(), Passing(), [Passing(), Passing(UNKNOWN)]
    tally.leave(left)

    assert tally.figures(there) == (
        ClientFigures(
            software=JAVA.name, version=JAVA.version, connections=1, connected=2, requests=4, request_bytes=20,
            answer_bytes=40,
        ),
        ClientFigures(
            software="unknown", version="unknown", connections=1, connected=1, requests=2, request_bytes=10,
            answer_bytes=20,
        ),
    )  # fmt: skip


def test_of_too_many_kinds_the_rest_are_others() -> None:
    """Clients say what they want: there are no more series than this."""
    tally = GatewayTally()
    for number in range(300):
        tally.leave(Passing(Software("made up", str(number))))

    found = tally.figures([])
    assert len(found) == 101
    assert next(each for each in found if each.software == "others").connected == 200


def figures(connections: int, connected: int, **settings: Any) -> GatewayFigures:
    """What a process says that has so many connections, and had so many."""
    clients = (ClientFigures(software="s", version="1", connections=connections, connected=connected, requests=5),)
    return GatewayFigures(cluster="east", clients=clients, brokers=3, **settings)


class Clock:
    """What time it is."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def ask(answers: GatewayAnswers, path: str) -> tuple[HTTPStatus, dict[str, object]]:
    """Status and body of an answer."""
    found = answers.health(path)
    assert found is not None
    return found.status, dict(plain(found.body))


def test_processes_count_together_and_what_has_ended_stays_counted() -> None:
    """A counter never goes back, whichever process ends and is started again."""
    board = Board("east", 2)
    board.take(0, figures(1, 4, refused={Refusal.SILENT: 1}))
    board.take(1, figures(2, 3))
    board.end(1)
    board.take(1, figures(1, 1))
    answers = GatewayAnswers(board)

    _, told = ask(answers, "/clients")
    assert (told["processes"], told["connections"], told["refused"]) == (2, 2, {"silent": 1})
    (client,) = board.figures.clients
    assert (client.connections, client.connected, client.requests) == (2, 8, 15)
    families = {each.name: each for each in text_string_to_metric_families(answers.metrics("")[0].decode())}
    assert families.keys() >= {metric.name.removesuffix("_total") for metric in GATEWAY_METRICS}
    (sample,) = families["isthmus_gateway_requests"].samples
    assert (sample.labels, sample.value) == ({"cluster": "east", "software": "s", "version": "1"}, 15)


def test_health_of_a_gateway() -> None:
    """It is ready once each process has spoken, as long as all do, the cluster answers, and it does not end."""
    clock = Clock()
    board = Board("east", 2, clock)
    answers = GatewayAnswers(board)
    assert ask(answers, "/livez")[0] == 200
    assert ask(answers, "/readyz")[1]["reasons"] == ["0 of 2 processes take connections"]
    board.take(0, figures(0, 0))
    assert ask(answers, "/readyz")[0] == 503
    board.take(1, figures(0, 0))
    assert ask(answers, "/readyz")[0] == 200
    assert ask(answers, "/health")[1]["status"] == "healthy"
    board.take(1, figures(0, 0, is_ending=True))
    assert ask(answers, "/readyz")[1]["reasons"] == ["the gateway is ending"]
    board.take(1, figures(0, 0, metadata_age_s=31.0))
    assert "has not reported for 31 s" in str(ask(answers, "/health")[1]["reasons"])
    clock.now_s = 61.0
    assert [ask(answers, path)[0] for path in ("/livez", "/readyz", "/health")] == [503, 503, 500]
    assert answers.health("/else") is None
