"""What a gateway does with bytes: which it refuses, what it expects, and that nothing makes it fail otherwise."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import AnswerStream, Conversation, Expected, NotPassed, RequestStream, Software
from isthmus.gateway.frames.layout import Short
from isthmus.gateway.frames.messages import FLEXIBLE_FROM, PASSING
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.gateway.frames.rewriting import edits, is_rewritten
from isthmus.gateway.frames.serving import Serving
from isthmus.model.namespace import Namespace

SMALL = replace(DEFAULTS, frame_bytes=10_000, header_bytes=300, answer_bytes=500)


def begun() -> tuple[Conversation, RequestStream, AnswerStream]:
    """A conversation through a gateway that leads everybody to one place."""
    return Conversation.create(SMALL, lambda node, host, port: ("gateway.example", 19092))


def request(key: int, version: int, correlation: int = 1, body: bytes = b"\xff\xff") -> bytes:
    """The frame of a request; the body begins with the client id."""
    payload = struct.pack(">hhi", key, version, correlation) + body
    return struct.pack(">i", len(payload)) + payload


def answer(correlation: int, body: bytes = b"") -> bytes:
    """The frame of an answer."""
    return struct.pack(">ii", 4 + len(body), correlation) + body


def passed(way: RequestStream | AnswerStream, data: bytes) -> bytes:
    """What becomes of some bytes that come at once."""
    return b"".join(map(bytes, way.take(memoryview(data))))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (struct.pack(">i", 0x7FFFFFFF) + bytes(8), "2147483647 bytes"),
        (struct.pack(">i", -1) + bytes(8), "-1 bytes"),
        (struct.pack(">i", 7) + bytes(8), "7 bytes"),
        (bytes.fromhex("1603010200010001fc0303") + bytes(8), "TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (request(17, 0), "SaslHandshake passes in versions 1 to 1"),
        (request(7, 0), "key 7"),
        (request(999, 0), "key 999"),
        (request(1, 12), "Fetch passes in versions 0 to 11"),
        (request(0, 9, body=b"\xff\xff\0\xff\xff\xff\xff\xff\xff"), "Produce cannot be read"),
        (request(0, 3, body=b"\xff\xff\0\x09"), "Produce ends within its header"),
        (request(0, 3, body=b"\xff\xff\x01\x90" + bytes(400)), "header"),
    ],
)
def test_requests_that_are_refused(sent: bytes, why: str) -> None:
    """What is no request, or none that passes, ends the connection and says why; a first request has passed by then."""
    _, requests, _ = begun()
    assert passed(requests, request(12, 4)) == request(12, 4)

    with pytest.raises(NotPassed, match=why):
        # The last one is cut off in a header that is too long to be gathered.
        passed(requests, sent[:320])


def test_a_version_that_clients_try_first() -> None:
    """A client that offers an unknown version of ApiVersions is told which there are, when its turn has come, and the
    broker hears nothing of it.
    """
    conversation, requests, answers = begun()
    sent = request(12, 4, 1) + request(18, 77, 2) + request(12, 4, 3)

    assert passed(requests, sent) == request(12, 4, 1) + request(12, 4, 3)
    assert answers.ready() == []
    refusal = struct.pack(">iihihhh", 16, 2, 35, 1, 18, 0, 5)
    assert passed(answers, answer(1)) == answer(1) + refusal
    assert passed(answers, answer(3)) == answer(3)
    passed(requests, request(18, 6, 4))
    assert b"".join(map(bytes, answers.ready())) == refusal[:4] + struct.pack(">i", 4) + refusal[8:]
    assert not conversation.expected


def test_no_answer_is_expected_without_acks() -> None:
    """A Produce with acks=0 is not answered: whatever comes next belongs to the request behind it."""
    conversation, requests, _ = begun()
    produce = b"\xff\xff" + b"\xff\xff" + struct.pack(">h", 0) + bytes(40)

    passed(requests, request(0, 3, 1, produce) + request(12, 4, 2))

    assert [each.correlation for each in conversation.expected] == [2]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (answer(2), "answered 2 where 1 was next"),
        (answer(1) + answer(1), "without a request"),
        (struct.pack(">ii", 3, 1), "answered 1 where"),
        (struct.pack(">ii", -5, 1), "answered 1 where"),
    ],
)
def test_answers_that_are_refused(sent: bytes, why: str) -> None:
    """A broker that answers out of step, or too much, is not passed on."""
    conversation, _, answers = begun()
    conversation.expected.append(Expected(1, 12, 4))

    with pytest.raises(NotPassed, match=why):
        passed(answers, sent)


def test_an_answer_that_is_too_large_to_be_rewritten() -> None:
    """What is gathered of an answer has a bound."""
    conversation, _, answers = begun()
    conversation.expected.append(Expected(1, 3, 0))
    # A list of brokers that goes on and on.
    body = struct.pack(">i", 100) + (struct.pack(">ih", 1, 1) + b"h" + struct.pack(">i", 9)) * 60

    with pytest.raises(NotPassed, match="too large"):
        passed(answers, (answer(1, body + bytes(1000)))[:700])


def test_what_is_passing_passes_when_it_is_to_end() -> None:
    """The request that has begun goes on to its end, and none behind it."""
    _, requests, _ = begun()
    first, second = request(12, 4, 1, bytes(100)), request(12, 4, 2)
    assert passed(requests, first[:50]) == first[:50]

    requests.end()

    between = [requests.is_between]
    assert passed(requests, first[50:] + second) == first[50:]
    between.append(requests.is_between)
    assert passed(requests, second) == b""
    assert between == [False, True]


def test_a_client_says_what_it_is() -> None:
    """Name and version come from ApiVersions; what cannot be shown is unknown."""
    conversation, requests, _ = begun()

    passed(requests, request(18, 3, body=b"\xff\xff\0" + b"\x05java" + b"\x064.4.0" + b"\0"))
    assert conversation.software == Software("java", "4.4.0")
    passed(requests, request(18, 3, body=b"\xff\xff\0" + b"\x02\x1b" + b"\x01" + b"\0"))
    assert conversation.software == Software("unknown", "unknown")


def test_a_login_is_noticed() -> None:
    """An answer of SaslAuthenticate without an error says so; others do not."""
    conversation, _, answers = begun()
    conversation.expected += [Expected(1, 36, 1), Expected(2, 36, 2)]

    passed(answers, answer(1, struct.pack(">h", 58) + bytes(6)))
    assert not conversation.has_logged_in
    passed(answers, answer(2, b"\0" + struct.pack(">h", 0) + bytes(6)))
    assert conversation.has_logged_in


def test_who_has_not_logged_in_is_told_nothing() -> None:
    """Until a broker has taken the login nothing passes but what a login takes, and we answer nothing ourselves: what
    is reserved is not shown to strangers, and nothing of theirs is gathered. Afterwards all goes on.
    """
    reserved = ReservedNames()
    reserved.take("groups", 0, Namespace(prefix="kept.", kind="group"))
    conversation, requests, answers = Conversation.create(SMALL, lambda *_: ("", 0), Serving(reserved=reserved))
    conversation.needs_login = True
    first = request(18, 0) + request(17, 1, 2, b"\xff\xff" + b"\0\5PLAIN") + request(36, 0, 3, b"\xff\xff" + bytes(4))
    assert passed(requests, first) == first

    beat = request(12, 0, 4, b"\xff\xff" + b"\0\6kept.a" + bytes(6))
    for sent in (beat, request(3, 0, 4), request(24, 0, 4)):
        with pytest.raises(NotPassed, match="before it had logged in"):
            passed(requests, sent)
    for number, body in ((1, bytes(6)), (2, bytes(6)), (3, struct.pack(">h", 0) + bytes(6))):
        passed(answers, answer(number, body))
    assert passed(requests, beat) == b""
    assert b"".join(map(bytes, answers.ready())) == answer(4, struct.pack(">h", 30))


def test_an_answer_with_a_producer_id_that_is_cut_off() -> None:
    """What is too short to hold an id ends the connection."""
    conversation, requests, answers = Conversation.create(SMALL, lambda *_: ("", 0), Serving(tag=1))
    passed(requests, request(22, 0, 1, b"\xff\xff" + b"\xff\xff" + bytes(4)))

    with pytest.raises(NotPassed, match="InitProducerId is cut off"):
        passed(answers, answer(1, bytes(9)))
    assert conversation.expected


CHUNKS = st.lists(st.binary(max_size=80), max_size=8)
HEADS = st.builds(
    request, st.sampled_from([*PASSING, 7, -1]), st.integers(-1, 15), st.integers(0, 9), st.binary(max_size=60)
)


@given(st.lists(st.one_of(HEADS, st.binary(max_size=30)), max_size=8), st.integers(1, 50))
def test_no_requests_make_it_fail(frames: list[bytes], size: int) -> None:
    """Random and cut frames are passed on or refused; whatever comes out was there before, in its order."""
    _, requests, _ = begun()
    sent, found = b"".join(frames), b""
    try:
        for at in range(0, len(sent), size):
            found += passed(requests, sent[at : at + size])
    except NotPassed:
        pass
    rest = iter(sent)
    assert all(byte in rest for byte in found)


@given(st.sampled_from([key for key in FLEXIBLE_FROM if is_rewritten(key, 10)]), st.integers(0, 13), CHUNKS)
def test_no_answers_make_it_fail(key: int, version: int, chunks: list[bytes]) -> None:
    """Random and cut answers to what is rewritten are passed on or refused."""
    conversation, _, answers = begun()
    conversation.expected += [Expected(1, key, version)] * 3
    body = b"".join(chunks)
    try:
        for data in (answer(1, body), *chunks):
            passed(answers, data)
    except NotPassed:
        pass


@given(
    st.sampled_from([key for key in FLEXIBLE_FROM if is_rewritten(key, 10)]),
    st.integers(10, 13),
    st.binary(max_size=200),
)
def test_no_bytes_make_a_parser_fail(key: int, version: int, payload: bytes) -> None:
    """Each parser of answers finds what it looks for, or says that there is too little, or something else."""
    try:
        found = edits(key, version, memoryview(payload), lambda node, host, port: (host, port))
    except (Short, ValueError):
        return
    places = [(edit.begin, edit.end) for edit in found]
    assert places == sorted(places)
    assert all(begin <= end <= len(payload) for begin, end in places)


@pytest.mark.parametrize(
    ("steps", "is_done"),
    [
        ([b""], True),
        ([b"r=abc,s=def,i=4096"], False),
        ([b"r=abc,s=def,i=4096", b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="], True),
        ([b'{"status":"invalid_token"}'], False),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_when_a_login_is_done(steps: list[bytes], is_done: bool, version: int) -> None:
    """A question of the broker, such as the first step of SCRAM, is no login yet, though it is no error either."""
    conversation, _, answers = begun()
    for number, said in enumerate(steps):
        conversation.expected.append(Expected(number, 36, version))
        size = bytes([len(said) + 1]) if version == 2 else struct.pack(">i", len(said))
        head = b"\0\0\0\0" if version == 2 else b"\0\0\xff\xff"
        passed(answers, answer(number, head + size + said + bytes(9)))

    assert conversation.has_logged_in == is_done
