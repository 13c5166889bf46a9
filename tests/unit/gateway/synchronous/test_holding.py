"""Acknowledgements that are held: requests walked through, answers in order, refusals, and what is raised."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import AnswerStream, Conversation, Expected, NotPassed, RequestStream
from isthmus.gateway.frames.acknowledging import build_refusal, ends_of, fail, read_acknowledgements
from isthmus.gateway.frames.duties import Duties, Duty
from isthmus.gateway.frames.walking import BatchWritten, ProduceWalk
from isthmus.gateway.synchronous.holding import HeldAnswer, HoldingQueue, Leaving
from isthmus.model.gateways.synchrony import SyncSettings
from tests.unit.gateway.parts import TIMEOUT_MS, Parts, answered, batch, produce

VERSIONS = st.integers(3, 12)
NAMES = st.text("abcäö-", min_size=1, max_size=6)


@dataclass(slots=True)
class Link:
    """A synchronous link that has everything at its follower or nothing, as the test says."""

    topics: Collection[str]
    duties: tuple[Duty, Duty] = (Duty.HOLD, Duty.HOLD)
    settings: SyncSettings = field(default_factory=SyncSettings)
    name: str = "orders"

    def duty(self, *, is_transactional: bool) -> Duty:
        """As the test says, plain first."""
        return self.duties[is_transactional]


@dataclass(slots=True)
class Owing:
    """The duties of a gateway with these links."""

    links: Collection[Link]

    def of(self, source_topic: str) -> Link | None:
        """The link that says it has it."""
        return next((link for link in self.links if source_topic in link.topics), None)


@st.composite
def written(draw: st.DrawFn) -> Parts:
    """Partitions of topics, and the bytes that are written there."""
    found: Parts = []
    for topic in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        for partition in draw(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)):
            records, is_transactional = draw(st.integers(0, 1000)), draw(st.booleans())
            body = batch(records, is_transactional=is_transactional, body=draw(st.binary(max_size=90)))
            if not records:
                found.append((BatchWritten(topic, partition, 0, False), draw(st.sampled_from([None, b"", b"x" * 60]))))
                continue
            found.append((BatchWritten(topic, partition, records, is_transactional), body))
    return found


def begun(*links: Link) -> tuple[Conversation, RequestStream, AnswerStream]:
    """A conversation through a gateway that owes something."""
    owing = cast(Duties, Owing(links))
    return Conversation.create(DEFAULTS, lambda node, host, port: ("gateway.example", 19092), duties=owing)


def passed(way: RequestStream, data: bytearray, size: int) -> bytes:
    """What becomes of bytes that come in pieces of this size."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(bytes(part) for piece in pieces for part in way.take(memoryview(piece)))


@given(written(), VERSIONS, st.integers(1, 40))
def test_a_request_is_walked_through_however_it_is_cut(parts: Parts, version: int, size: int) -> None:
    """What a request writes is known when it has passed, and it passes as it is; the next one is walked through too."""
    conversation, requests, _ = begun(Link("nothing"))
    sent = produce(parts, version) + produce(parts[:1], version, correlation=8)

    assert passed(requests, sent, size) == sent

    first, second = (cast(ProduceWalk, each.owed) for each in conversation.expected)
    assert [each[:4] for each in first.written] == [each[:4] for each, _ in parts]
    assert (first.timeout_ms, first.is_done) == (TIMEOUT_MS, True)
    assert [each[:4] for each in second.written] == [parts[0][0][:4]]


@given(written(), VERSIONS, st.data())
@settings(max_examples=30)
def test_a_request_that_is_no_such_thing(parts: Parts, version: int, data: st.DataObject) -> None:
    """Damaged requests pass or end the connection, before their last byte has passed; nothing else happens."""
    sent = produce(parts, version)
    at = data.draw(st.integers(4 + 14, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    _, requests, _ = begun(Link("nothing"))
    found = b""
    try:
        for at in range(len(sent)):
            found += passed(requests, sent[at : at + 1], 1)
    except NotPassed:
        assert len(found) < len(sent)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("version", "within", "code"), [(3, "", 19), (9, "", 19), (12, "", 19), (11, "id", 120)])
def test_what_is_refused(version: int, within: str, code: int, size: int) -> None:
    """A request into a link that is out of sync is not forwarded: it is refused, whatever else is in it comes again,
    and the answer is given in its turn. With a transaction it is refused for good.
    """
    is_within = bool(within)
    parts: Parts = [
        (BatchWritten(name, 0, 3, is_within), batch(3, is_transactional=is_within)) for name in ("orders", "other")
    ]
    conversation, requests, answers = begun(Link(["orders"], (Duty.LET_GO if is_within else Duty.REFUSE, Duty.REFUSE)))
    before = produce([(BatchWritten("other", 2, 1, False), batch(1))], version, correlation=6)
    behind = produce([(BatchWritten("other", 1, 1, False), batch(1))], version, correlation=8)

    sent = before + produce(parts, version, within=within or None) + behind
    assert passed(requests, sent, size) == before + behind

    assert answers.ready() == []
    assert [(each.correlation, bool(each.answer)) for each in conversation.expected] == [
        (6, False),
        (7, True),
        (8, False),
    ]
    conversation.expected.popleft()
    assert answers.ready() == [answered(parts, [code, 6], version)]


@pytest.mark.parametrize("version", [3, 10])
def test_a_transaction_that_hears_it_with_its_commit(version: int) -> None:
    """Clients of these versions would not write again behind a batch that is refused for good."""
    parts: Parts = [(BatchWritten("orders", 0, 3, True), batch(3, is_transactional=True))]
    _, requests, _ = begun(Link(["orders"], (Duty.LET_GO, Duty.REFUSE)))
    sent = produce(parts, version, within="orders")
    assert passed(requests, sent, 7) == sent


def test_what_cannot_be_refused_is_not_gathered() -> None:
    """While transactions are refused, other requests pass as their bytes come; where all are, they wait to be whole."""
    part: Parts = [(BatchWritten("orders", 0, 3, False), batch(3, body=bytes(100)))]
    for plain, begins in ((Duty.LET_GO, True), (Duty.REFUSE, False)):
        _, requests, _ = begun(Link(["orders"], (plain, Duty.REFUSE)))
        sent = memoryview(produce(part, 9))

        assert bool(requests.take(sent[:60])) is begins
        assert bool(requests.take(sent[60:])) is begins


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_link_that_refuses_is_in_the_way_of_no_other_topic(version: int) -> None:
    """A request that is about another topic alone passes as its bytes come, and what it owes is known."""
    refusing = Link(["orders"], (Duty.REFUSE, Duty.REFUSE), SyncSettings(raise_acks=True))
    for acks in (-1, 1):
        conversation, requests, _ = begun(refusing, Link(["held"]))
        for name in ("other", "held"):
            part: Parts = [(BatchWritten(name, 0, 3, False), batch(3, body=bytes(100)))]
            sent = produce(part, version, acks=acks)
            begin, rest = requests.take(memoryview(sent[:60])), requests.take(memoryview(sent[60:]))
            assert b"".join(map(bytes, begin)) == sent[:60]
            assert b"".join(map(bytes, rest)) == sent[60:]
        walks = [each.owed for each in conversation.expected]
        assert [isinstance(each, ProduceWalk) and each.is_done for each in walks] == [acks == -1] * 2


@given(written(), VERSIONS, st.integers(1, 100))
def test_acks_are_raised(parts: Parts, version: int, size: int) -> None:
    """Where a link says so, acks=1 becomes acks=all, and nothing else of the request changes; other topics keep it."""
    names = {each.topic for each, _ in parts}
    for topics, is_raised in ((names, True), ({"elsewhere"}, False)):
        conversation, requests, _ = begun(Link(topics, settings=SyncSettings(raise_acks=True)))
        sent = produce(parts, version, acks=1)

        found = passed(requests, sent, size)

        assert found == produce(parts, version, acks=-1 if is_raised else 1)
        assert [each.owed is not None for each in conversation.expected] == [is_raised]


def test_what_is_not_held() -> None:
    """Who asks for fewer acknowledgements gets them at once, and a client too old to be walked through is left."""
    conversation, requests, _ = begun(Link(["orders"]))
    part: Parts = [(BatchWritten("orders", 0, 3, False), batch(3))]

    passed(requests, produce(part, 9, acks=0) + produce(part, 9, acks=1), 50)

    assert [(each.key, each.owed, each.is_blind) for each in conversation.expected] == [(0, None, False)]
    with pytest.raises(NotPassed, match="version 2"):
        passed(requests, produce(part, 2), 50)


def test_what_passed_unlooked_at_is_known() -> None:
    """An acknowledgement is blind if its request passed while there was no synchronous link, until it has come."""
    owing = Owing([])
    conversation, requests, answers = Conversation.create(DEFAULTS, lambda *_: ("", 0), duties=cast(Duties, owing))
    part: Parts = [(BatchWritten("orders", 0, 3, False), batch(3))]
    passed(requests, produce(part, 9), 50)
    owing.links = [Link(["orders"])]
    passed(requests, produce(part, 9, correlation=8), 50)

    blind = [conversation.is_blind]
    answers.take(memoryview(struct.pack(">ii", 4, 7)))
    blind.append(conversation.is_blind)

    assert blind == [True, False]


@given(written(), VERSIONS, st.integers(1, 60), st.lists(st.sampled_from([0, 0, 0, 3, 46]), min_size=9, max_size=9))
def test_an_acknowledgement_is_read(parts: Parts, version: int, size: int, codes: list[int]) -> None:
    """The answer is there as a whole before it may leave; from it follows which offsets were taken, and an error can be
    written into it.
    """
    sent = answered(parts, codes, version, base=1000)
    walk = ProduceWalk(1, flexible=False)
    conversation, _, answers = begun(Link("nothing"))
    conversation.expected += [Expected(7, 0, version, owed=walk), Expected(8, 12, 0)]
    sent += struct.pack(">ii", 4, 8)

    found = [each for at in range(0, len(sent), size) for each in answers.take(memoryview(sent)[at : at + size])]

    assert b"".join(map(bytes, found)) == sent
    held = next(each for each in found if isinstance(each, HeldAnswer))
    told = read_acknowledgements(memoryview(held.frame), version)
    wanted = [(each, code) for (each, _), code in zip(parts, codes, strict=False)]
    assert [(*each.key, each.code, each.base) for each in told] == [
        (each.topic, each.partition, code, 1000) for each, code in wanted
    ]
    assert ends_of([each for each, _ in parts], told) == {
        (each.topic, each.partition): (1000, 1000 + each.records)
        for each, code in wanted
        if not code and not each.is_transactional
    }
    fail(held.frame, told[-1].code_at, 20)
    assert bytes(held.frame) == answered(parts, [*codes[: len(told) - 1], 20], version, base=1000)


@given(written(), VERSIONS)
def test_a_refusal_is_read_by_others(parts: Parts, version: int) -> None:
    """The answer that we make ourselves is one, in every version."""
    first = parts[0][0]
    keys = {(first.topic, first.partition)}

    found = build_refusal([each for each, _ in parts], dict.fromkeys(keys, 19), version=version, correlation=7)

    assert found == answered(parts, [19 if each == first else 6 for each, _ in parts], version)


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a list of all that was ever given to it."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = HoldingQueue()
        self.given: list[tuple[bytes, HeldAnswer | None]] = []
        self.held: deque[HeldAnswer] = deque()
        self.out = b""
        self.count = 0

    def frame(self) -> bytes:
        """Bytes unlike all others."""
        self.count += 1
        return struct.pack(">i", self.count)

    @rule(kinds=st.lists(st.sampled_from(["forwarded", "held", "ready"]), min_size=1, max_size=5))
    def answer(self, kinds: list[str]) -> None:
        """Answers come: forwarded ones and our own, ones that wait, and ones that need not."""
        leaving: list[Leaving] = []
        for kind in kinds:
            frame = self.frame()
            if kind == "forwarded":
                leaving.append(memoryview(bytearray(frame)))
                self.given.append((frame, None))
            else:
                held = HeldAnswer(bytearray(frame), 9, ProduceWalk(1, flexible=False))
                held.is_ready = kind == "ready"
                self.held.append(held)
                leaving.append(held)
                self.given.append((frame, held))
        self.out += b"".join(map(bytes, self.queue.take(leaving)))
        for each in leaving:
            if isinstance(each, memoryview):
                # As the next bytes that are read do.
                each[:] = bytes(4)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        """Something that was waited for has come, in whatever order."""
        held = data.draw(st.sampled_from(list(self.held)))
        held.is_ready = True
        self.out += b"".join(map(bytes, self.queue.ready()))

    @invariant()
    def leaves_in_order(self) -> None:
        """What has left is all up to the first that still waits, in order, each once."""
        wanted = b""
        for frame, held in self.given:
            if held is not None and not held.is_ready:
                break
            wanted += frame
        assert self.out == wanted
        assert bool(self.queue) == (wanted != b"".join(frame for frame, _ in self.given))
        waits = list(self.given)
        while waits and (waits[0][1] is None or waits[0][1].is_ready):
            waits.pop(0)
        assert self.queue.waiting_bytes == sum(len(frame) for frame, held in waits if held is None)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=30, stateful_step_count=20)
