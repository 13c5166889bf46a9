"""Fetch sessions: what goes into each request, and what is made of the answers."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.errors import Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.frames import pick_version
from isthmus.kafka.log.fetch import SESSION_LOST, Fetched, FetchSession, Throttle, Want, fetch_once
from isthmus.kafka.log.listoffsets import READ_COMMITTED, READ_UNCOMMITTED, PartitionKey
from isthmus.kafka.metadata import NO_TOPIC_ID

KEYS: Final = [(topic, partition) for topic in ("a", "b") for partition in range(3)]
IDS: Final = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}


def want(key: PartitionKey, offset: int) -> Want:
    return Want(IDS[key[0]], offset, 0, -1)


def request_of(session: FetchSession[str]) -> Any:
    return session.request(max_wait_ms=1, bytes_max=2, partition_bytes_max=3, by_topic_id=True)


def asked(request: Any) -> dict[PartitionKey, int]:
    return {(t.topic, p.partition): p.fetch_offset for t in request.topics for p in t.partitions}


def forgotten(request: Any) -> set[PartitionKey]:
    return {(t.topic, partition) for t in request.forgotten_topics_data for partition in t.partitions}


class BrokerSession(RuleBasedStateMachine):
    """A broker that keeps a session as KIP-227 says, beside the session that speaks to it."""

    def __init__(self) -> None:
        super().__init__()
        self.session = FetchSession[str]()
        self.wanted: dict[PartitionKey, int] = {}
        self.id, self.epoch = 0, 0
        self.known: dict[PartitionKey, int] = {}

    @rule(key=st.sampled_from(KEYS), offset=st.integers(0, 100))
    def wants(self, key: PartitionKey, offset: int) -> None:
        self.session.want(key, want(key, offset))
        self.wanted[key] = offset

    @rule(key=st.sampled_from(KEYS))
    def forgets(self, key: PartitionKey) -> None:
        self.session.forget(key)
        self.wanted.pop(key, None)

    @rule()
    def loses_connection(self) -> None:
        self.session.reset()

    @precondition(lambda self: self.wanted)
    @rule(outcome=st.sampled_from(["answered"] * 5 + ["no room", "session lost"]))
    def fetches(self, outcome: str) -> None:
        request = request_of(self.session)
        if request.session_epoch <= 0:
            # A full request: the session begins anew, and everything is named.
            assert request.session_id == 0
            assert not forgotten(request)
            self.known = asked(request)
            self.id, self.epoch = self.id + 1, 0
        else:
            assert (request.session_id, request.session_epoch) == (self.id, self.epoch)
            for key in forgotten(request):
                # Brokers pass over what they were never told of.
                self.known.pop(key, None)
            self.known |= asked(request)
        assert self.known == self.wanted
        self.answer(outcome)

    def answer(self, outcome: str) -> None:
        if outcome == "session lost":
            answer = SimpleNamespace(error_code=codes.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
        else:
            answer = SimpleNamespace(error_code=codes.NONE, session_id=self.id if outcome == "answered" else 0)
        self.epoch += 1
        assert self.session.take_answer(answer) == answer.error_code

    @invariant()
    def counts(self) -> None:
        assert len(self.session) == len(self.wanted)
        assert all(key in self.session for key in self.wanted)


TestBrokerSession = BrokerSession.TestCase
TestBrokerSession.settings = settings(max_examples=60, stateful_step_count=30)


def test_epochs_wrap() -> None:
    """Behind the last epoch of a session comes 1, as 0 would begin another."""
    session = FetchSession[str]()
    session.want(KEYS[0], want(KEYS[0], 0))
    request_of(session)
    session.take_answer(SimpleNamespace(error_code=0, session_id=9))
    session._epoch = 0x7FFFFFFF
    assert request_of(session).session_epoch == 0x7FFFFFFF
    session.take_answer(SimpleNamespace(error_code=0, session_id=9))
    assert request_of(session).session_epoch == 1


def test_without_a_session_every_request_is_full() -> None:
    """A sessionless fetch asks for no session and names all partitions each time."""
    session = FetchSession[str](incremental=False)
    for n in range(3):
        session.want(KEYS[0], want(KEYS[0], n))
        request = request_of(session)
        assert (request.session_id, request.session_epoch) == (0, -1)
        assert asked(request) == {KEYS[0]: n}
        session.take_answer(SimpleNamespace(error_code=0, session_id=0))


def answer(version: int, partitions: list[Any], *, topic: str = "a", session_id: int = 1) -> Any:
    found = SimpleNamespace(topic=topic, topic_id=IDS[topic], partitions=partitions)
    return SimpleNamespace(API_VERSION=version, responses=[found], error_code=0, session_id=session_id)


def partition(index: int, **fields: Any) -> Any:
    told = {"error_code": 0, "last_stable_offset": 5, "log_start_offset": 2, "aborted_transactions": None}
    told["high_watermark"] = 6
    return SimpleNamespace(partition_index=index, **{**told, "records": None, **fields})


@given(version=st.sampled_from([12, 13, 17]))
def test_answers_name_what_was_asked(version: int) -> None:
    """Topics come by name or by id; offsets are those of the request, not of what was wanted meanwhile."""
    session = FetchSession[str]()
    session.want(("a", 1), want(("a", 1), 10))
    request_of(session)
    session.want(("a", 1), want(("a", 1), 20))
    aborted = [SimpleNamespace(producer_id=7, first_offset=3)]
    told = answer(version, [partition(1, aborted_transactions=aborted, records=b"xyz"), partition(2)])

    found = list(session.partitions(told))

    assert found == [
        Fetched(
            key=("a", 1),
            offset=10,
            error_code=0,
            stable_end=5,
            log_start=2,
            diverged_at=-1,
            aborted=[(7, 3)],
            records=b"xyz",
            high_watermark=6,
        )
    ]


def test_a_broker_without_room_for_a_session() -> None:
    """Its answers count like any other, errors too, and every request names all that is wanted."""
    session = FetchSession[str]()
    for offset in (10, 20, 30):
        session.want(("a", 0), want(("a", 0), offset))
        session.want(("a", 1), want(("a", 1), 7))
        request = request_of(session)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert asked(request) == {("a", 0): offset, ("a", 1): 7}
        told = answer(13, [partition(0, records=b"xyz"), partition(1, error_code=1)], session_id=0)
        assert session.take_answer(told) == codes.NONE
        found = [(fetched.key, fetched.offset, fetched.error_code) for fetched in session.partitions(told)]
        assert found == [(("a", 0), offset, 0), (("a", 1), 7, 1)]


@pytest.mark.parametrize("by_topic_id", [True, False])
@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_topic_that_was_made_anew(by_topic_id: bool, is_forgotten: bool) -> None:
    """The partition of the former topic leaves the session, where topics have ids, and what is told of it is not told
    of the new one.
    """
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    assert session.take_answer(SimpleNamespace(error_code=0, session_id=9)) == codes.NONE
    if is_forgotten:
        session.forget(("a", 0))
    session.want(("a", 0), Want(uuid.UUID(int=7), 0, 0, -1))

    request = session.request(max_wait_ms=1, bytes_max=2, partition_bytes_max=3, by_topic_id=by_topic_id)

    gone = [(each.topic_id, each.partitions) for each in request.forgotten_topics_data]
    assert gone == ([(IDS["a"], [0])] if by_topic_id else [])
    assert [each.topic_id for each in request.topics] == [uuid.UUID(int=7)]
    assert list(session.partitions(answer(13, [partition(0, error_code=codes.UNKNOWN_TOPIC_ID)]))) == []


def test_who_had_its_turn_waits_for_the_others() -> None:
    """Brokers fill an answer in the order of a full request: what was read last comes last, or others would starve."""
    session = FetchSession[str](incremental=False)
    for key in KEYS:
        session.want(key, want(key, 0))
    request_of(session)
    session.want(("a", 0), want(("a", 0), 5))
    assert [*asked(request_of(session))] == [("a", 1), ("a", 2), ("a", 0), *KEYS[3:]]
    for key in (("a", 1), ("a", 2)):
        session.want(key, want(key, 5))
    assert [*asked(request_of(session))] == [*KEYS[3:], ("a", 0), ("a", 1), ("a", 2)]


def test_divergence_is_told() -> None:
    """A log that was truncated below what was read says where (KIP-320)."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    for diverging, wanted in (
        (SimpleNamespace(epoch=3, end_offset=8), 8),
        (SimpleNamespace(epoch=0, end_offset=8), 8),
        (SimpleNamespace(epoch=-1, end_offset=-1), -1),
    ):
        (found,) = session.partitions(answer(13, [partition(0, diverging_epoch=diverging)]))
        assert found.diverged_at == wanted


@pytest.mark.parametrize("version", [12, 13])
def test_a_leader_that_sends_its_readers_elsewhere(version: int) -> None:
    """Where it wants them to read is told (KIP-392), and that it gives no records, whichever way it names topics."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    for replica, wanted in ((7, 7), (0, 0), (-1, -1), (None, -1)):
        told = answer(version, [partition(0, preferred_read_replica=replica, records=None)])
        told.responses[0].topic, told.responses[0].topic_id = ("a", NO_TOPIC_ID) if version == 12 else ("", IDS["a"])
        (found,) = session.partitions(told)
        assert (found.preferred, found.records) == (wanted, b"")


def test_a_request_says_all_that_a_broker_has_to_know() -> None:
    """Who asks, for how much, how long it may wait, and from where each partition is read."""
    session = FetchSession[str]()
    session.want(("a", 1), Want(IDS["a"], 10, 7, 6))
    request = session.request(max_wait_ms=11, bytes_max=22, partition_bytes_max=33, by_topic_id=True)
    assert (request.replica_id, request.isolation_level, request.rack_id) == (-1, READ_COMMITTED, "")
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (11, 1, 22)
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == ("a", IDS["a"])
    (p,) = topic.partitions
    assert (p.partition, p.fetch_offset, p.current_leader_epoch, p.last_fetched_epoch) == (1, 10, 7, 6)
    assert (p.log_start_offset, p.partition_max_bytes) == (-1, 33)
    uncommitted = FetchSession[str](isolation=READ_UNCOMMITTED)
    assert request_of(uncommitted).isolation_level == READ_UNCOMMITTED


def test_partitions_stand_under_their_topics() -> None:
    """Each topic is named once, with all its partitions, in what is wanted and in what is forgotten."""
    session = FetchSession[str]()
    for key in KEYS:
        session.want(key, want(key, 5))
    request = request_of(session)
    assert [(topic.topic, len(topic.partitions)) for topic in request.topics] == [("a", 3), ("b", 3)]
    session.take_answer(answer(13, []))
    for key in KEYS:
        session.forget(key)
    request = request_of(session)
    gone = [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    assert gone == [("a", IDS["a"], [0, 1, 2]), ("b", IDS["b"], [0, 1, 2])]
    assert not forgotten(request_of(session))


def test_topic_ids_are_for_brokers_that_know_them() -> None:
    """From version 13 on topics are named by their id alone; sessions need version 7."""

    def version(broker_max: int, *, by_topic_id: bool) -> int:
        request = FetchSession[str]().request(
            max_wait_ms=1, bytes_max=2, partition_bytes_max=3, by_topic_id=by_topic_id
        )
        return pick_version(request, {request.API_KEY: (0, broker_max)}, "east")

    assert (version(17, by_topic_id=True), version(17, by_topic_id=False)) == (17, 12)
    assert version(7, by_topic_id=False) == 7
    with pytest.raises(UnsupportedByBroker):
        version(6, by_topic_id=False)


@pytest.mark.parametrize("code", sorted(SESSION_LOST))
def test_a_lost_session_begins_anew(code: int) -> None:
    """Everything is asked for again, in a full request."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    session.take_answer(answer(13, []))
    assert asked(request_of(session)) == {}
    assert session.take_answer(SimpleNamespace(error_code=code, session_id=0)) == code
    request = request_of(session)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {("a", 0): 10}


def test_other_errors_are_the_callers() -> None:
    """The session goes on as it is."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    session.take_answer(answer(13, [], session_id=4))
    assert session.take_answer(SimpleNamespace(error_code=codes.TOPIC_AUTHORIZATION_FAILED, session_id=0)) == 29
    request = request_of(session)
    assert (request.session_id, request.session_epoch) == (4, 1)


def test_what_was_forgotten_meanwhile_is_not_told() -> None:
    """Nor what was never asked for; what was only wanted since then has no offset yet."""
    session = FetchSession[str]()
    for index in (0, 1):
        session.want(("a", index), want(("a", index), 10))
    request_of(session)
    session.forget(("a", 0))
    session.want(("a", 2), want(("a", 2), 20))
    told = answer(12, [partition(index) for index in (0, 1, 2)])
    told.responses.insert(0, SimpleNamespace(topic="unknown", topic_id=uuid.UUID(int=9), partitions=[partition(1)]))
    assert [(found.key, found.offset) for found in session.partitions(told)] == [(("a", 1), 10), (("a", 2), -1)]
    assert session.partitions(answer(13, [partition(0)])) is not None
    assert ("a", 0) not in session
    assert len(session) == 2


def test_what_is_forgotten_before_it_was_asked_for_is_not_named() -> None:
    """A broker that knows of no session has nothing to forget."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    session.forget(("a", 0))
    session.want(("a", 1), want(("a", 1), 10))
    request = request_of(session)
    assert (asked(request), forgotten(request)) == ({("a", 1): 10}, set())
    session.take_answer(answer(13, []))
    session.want(("a", 2), want(("a", 2), 10))
    session.forget(("a", 2))
    assert asked(request_of(session)) == {}


def test_what_is_wanted_again_is_not_forgotten() -> None:
    """Between two requests only the last word counts."""
    session = FetchSession[str]()
    session.want(("a", 0), want(("a", 0), 10))
    request_of(session)
    session.take_answer(answer(13, []))
    session.forget(("a", 0))
    session.want(("a", 0), want(("a", 0), 12))
    request = request_of(session)
    assert (asked(request), forgotten(request)) == ({("a", 0): 12}, set())


def answering(*answers: Any) -> tuple[Connection, list[Any]]:
    """A connection to a broker that answers so, and what it was asked."""
    rest, asked_of_it = list(answers), list[Any]()

    async def call(request: Any, **_: Any) -> Any:
        asked_of_it.append(request)
        return rest.pop(0)

    return cast(Connection, SimpleNamespace(call=call, where="there", cluster="nowhere")), asked_of_it


def held_back(throttle_ms: int) -> Any:
    """What a broker over a quota answers: no error, no partition (KIP-219)."""
    return SimpleNamespace(error_code=0, throttle_time_ms=throttle_ms, responses=[], API_VERSION=13)


def shown(*keys: PartitionKey) -> Any:
    """An answer that has these partitions, without a record in them."""
    part = {"error_code": 0, "last_stable_offset": 9, "log_start_offset": 0, "high_watermark": 9, "records": b""}
    topics = [
        SimpleNamespace(
            topic_id=IDS[topic],
            partitions=[SimpleNamespace(partition_index=partition, aborted_transactions=(), **part)],
        )
        for topic, partition in keys
    ]
    return SimpleNamespace(error_code=0, throttle_time_ms=0, responses=topics, API_VERSION=13)


def fetched_from(connection: Connection, *keys: PartitionKey) -> list[Fetched[str]]:
    wants = {key: want(key, 7) for key in keys}
    return asyncio.run(fetch_once(connection, wants, isolation=READ_COMMITTED, bytes_max=1 << 20, timeout_s=1.0))


def test_an_answer_that_is_held_back_says_nothing() -> None:
    """The broker is asked again, for less, until it shows every partition."""
    connection, requests = answering(held_back(1), held_back(1), shown(*KEYS[:2]))
    assert [each.key for each in fetched_from(connection, *KEYS[:2])] == KEYS[:2]
    assert [request.max_bytes for request in requests] == [1 << 20, 1 << 19, 1 << 18]


def test_a_partition_that_an_answer_leaves_out_is_not_concluded_from() -> None:
    """Without a quota no answer lacks a partition that was asked for: it is as if none had come."""
    connection, _ = answering(shown(KEYS[0]))
    with pytest.raises(Unreachable):
        fetched_from(connection, *KEYS[:2])


def test_who_is_held_back_again_and_again_waits_longer() -> None:
    """To ask uses the quota up as well. What brokers count together is over after some ten seconds without a request,
    and a longer time that the broker announces counts.
    """
    throttle = Throttle(1 << 20)
    assert throttle.since_s == 0
    assert [throttle.pause_s(1000) for _ in range(6)] == [1, 2, 4, 8, 12, 12]
    assert throttle.pause_s(70_000) == 70
    assert throttle.bytes_max == 16 << 10
    throttle.end()
    assert (throttle.bytes_max, throttle.since_s, throttle.pause_s(500)) == (32 << 10, 0, 0.5)
