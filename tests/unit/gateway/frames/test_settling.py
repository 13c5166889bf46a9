"""Requests of producers that came from another cluster: what passes, under which id, and what is answered by us."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import AnswerStream, Conversation, RequestStream
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.frames.walking import BatchWritten
from isthmus.kafka.batches.batch import crc_ok, scan
from isthmus.model.gateways.carriedproducers import CarriedProducer, CarriedProducers
from isthmus.model.gateways.producerids import settled_producer_id
from isthmus.model.namespace import Namespace
from tests.unit.gateway.batches import ME, batch
from tests.unit.gateway.parts import Parts, answered, produce

KEYS = [("orders", 0), ("orders", 1), ("paid", 0)]


def parts_of(sequences: Sequence[int], **options: int) -> Parts:
    """A request that writes a batch into each of the first partitions."""
    return [
        (BatchWritten(*key, 1, is_transactional=False), batch(sequence, **options))
        for key, sequence in zip(KEYS, sequences, strict=False)
    ]


def begun(last: Sequence[int], *, stay: int = 1) -> tuple[Serving, Conversation, RequestStream, AnswerStream]:
    """A conversation with a cluster that producers came to that had written up to there."""
    carried = [CarriedProducer(*key, ME, 3, sequence) for key, sequence in zip(KEYS, last, strict=False)]
    serving = Serving(stay=stay, carried=CarriedProducers(carried, stay=stay))
    return serving, *Conversation.create(DEFAULTS, lambda node, host, port: (host, port), serving)


def passed(way: RequestStream | AnswerStream, data: bytes | bytearray, size: int = 1000) -> bytes:
    """What becomes of bytes that come in pieces of this size."""
    pieces = (bytearray(data[at : at + size]) for at in range(0, len(data), size))
    return b"".join(bytes(part) for piece in pieces for part in way.take(memoryview(piece)))


@pytest.mark.parametrize("size", [1, 50, 5000])
@pytest.mark.parametrize("version", [3, 9, 12])
def test_what_was_written_before_is_answered_by_us(version: int, size: int) -> None:
    """It does not reach the cluster; what else is in the request is to come again, and goes on then."""
    serving, conversation, requests, answers = begun([5, 5, 5])
    first, second = parts_of([5, 6, 8]), parts_of([6])

    assert passed(requests, produce(first, version), size) == b""
    assert b"".join(map(bytes, answers.ready())) == answered(first, [46, 6, 6], version)
    assert serving.carried.doubted == {KEYS[2]}
    assert passed(requests, produce(second, version), size) == bytes(produce(second, version))
    told = answered(second, [0], version, base=100)
    assert passed(answers, told, size) == told

    assert not conversation.expected
    assert len(serving.carried) == 2


def test_a_connection_that_is_lost_leaves_it_to_the_next_one() -> None:
    """Whether what was on its way has arrived only the cluster knows: it comes again."""
    serving, conversation, requests, _ = begun([5])
    sent = bytes(produce(parts_of([6]), 9))
    assert passed(requests, sent) == sent

    conversation.forget()

    _, again, _ = Conversation.create(DEFAULTS, lambda *_: ("", 0), serving)
    assert passed(again, sent) == sent


@given(st.integers(3, 12), st.integers(2, 600), st.integers(0, 40_000), st.integers(1, 70_000))
@settings(max_examples=25, deadline=None)
def test_a_producer_that_is_here_again(version: int, stay: int, size: int, chunk: int) -> None:
    """Its batches have another id here, with a right checksum, and nothing else of the request is changed."""
    _, _, requests, _ = begun([], stay=stay)
    parts = parts_of([4, 5], size=size)
    sent = bytes(produce(parts, version))

    found = passed(requests, sent, chunk)

    other = settled_producer_id(ME, stay)
    assert found == bytes(produce(parts_of([4, 5], size=size, producer=other), version))
    for key in range(2):
        at = found.index(batch([4, 5][key], size=size, producer=other))
        (made,) = scan(found[at : at + len(batch(4, size=size))])
        assert crc_ok(made)
        assert made.producer_id == other


@pytest.mark.parametrize("version", [3, 9, 12])
def test_nothing_passes_behind_what_was_reserved_when_the_ledger_was_not_heard(version: int) -> None:
    """Its topic has been released by the time that the next batch of the producer comes: the cluster would take that
    one first. What else is in the request passes, and so does all of it once the first one has come again.
    """
    kept = ReservedNames()
    kept.take("kept", 0, Namespace(prefix="orders"))
    kept.heard_at = float("-inf")
    conversation, requests, answers = Conversation.create(
        DEFAULTS, lambda node, host, port: (host, port), Serving(reserved=kept)
    )
    (first, _, beside), (second, _, _) = parts_of([5, 5, 5]), parts_of([6, 6, 6])

    assert passed(requests, produce([first, beside], version)) == bytes(produce([beside], version))
    told = answered([beside], [0], version)
    assert passed(answers, told) == answered([first, beside], [6, 0], version)
    kept.take("kept", 1, None)
    assert passed(requests, produce([second], version)) == b""
    assert b"".join(map(bytes, answers.ready())) == answered([second], [6], version)
    for each in (first, second):
        assert passed(requests, produce([each], version)) == bytes(produce([each], version))
        assert passed(answers, answered([each], [0], version, base=100))
    assert not conversation.again


def test_what_is_reserved_for_certain_does_not_come_again() -> None:
    """Its producer gives it up, and nothing waits for it any more."""
    kept = ReservedNames()
    kept.take("kept", 0, Namespace(prefix="orders"))
    kept.heard_at = float("-inf")
    conversation, requests, answers = Conversation.create(
        DEFAULTS, lambda node, host, port: (host, port), Serving(reserved=kept)
    )
    for code in (6, 29):
        assert passed(requests, produce(parts_of([5]), 9)) == b""
        assert code.to_bytes(2, "big") in b"".join(map(bytes, answers.ready()))
        assert bool(conversation.again) is (code == 6)
        kept.heard_at = float("inf")
