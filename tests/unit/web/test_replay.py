"""Requests that are sent again with their key."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from isthmus.errors import RequestRefused
from isthmus.web.replay import RepeatedRequests


async def asked(
    requests: RepeatedRequests,
    key: str = "k",
    body: bytes = b"",
    *,
    status: int = 201,
    caller: str = "alice",
    answer: bytes = b"{}",
) -> tuple[int, bool]:
    """The status that a caller gets, and whether anything was done for it."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with requests.once(caller, key, "POST /v1/links?", body, send) as remembering:
        if remembering is not None:
            await remembering({"type": "http.response.start", "status": status, "headers": []})
            await remembering({"type": "http.response.body", "body": answer})
    return sent[0]["status"], remembering is not None


def test_the_same_request_gets_the_first_answer() -> None:
    """And is done once; another key is another request."""
    requests = RepeatedRequests()

    assert asyncio.run(asked(requests)) == (201, True)
    assert asyncio.run(asked(requests, status=409)) == (201, False)
    assert asyncio.run(asked(requests, "other", status=409)) == (409, True)


def test_a_key_is_of_one_request() -> None:
    """Something else with the same key is refused."""
    requests = RepeatedRequests()
    asyncio.run(asked(requests))

    with pytest.raises(RequestRefused, match="another request"):
        asyncio.run(asked(requests, body=b"else"))


@pytest.mark.parametrize("status", [412, 503])
def test_what_was_not_done_is_done_again(status: int) -> None:
    """An answer that says so is not kept."""
    requests = RepeatedRequests()

    assert asyncio.run(asked(requests, status=status)) == (status, True)
    assert asyncio.run(asked(requests)) == (201, True)


def test_a_request_at_work_is_not_begun_again() -> None:
    """Who asks meanwhile is told to wait."""
    requests = RepeatedRequests()

    async def scenario() -> None:
        async def send(_: Message) -> None:
            pass

        async with requests.once("alice", "k", "POST /v1/links?", b"", send):
            with pytest.raises(RequestRefused, match="still being worked on") as refused:
                await asked(requests)
        assert refused.value.retry_after_s == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_has_so_many_characters(key: str) -> None:
    """One without any, or with too many, is refused."""
    with pytest.raises(RequestRefused, match="1 to 255"):
        asyncio.run(asked(RepeatedRequests(), key))


def test_nobody_has_requests_of_others_forgotten() -> None:
    """However many somebody sends; of the same caller the last thousand are known."""
    requests = RepeatedRequests()

    async def scenario() -> None:
        assert await asked(requests, "first") == (201, True)
        for number in range(1001):
            assert await asked(requests, str(number), caller="bob") == (201, True)
        assert await asked(requests, "first") == (201, False)
        assert await asked(requests, "1", status=409, caller="bob") == (201, False)
        assert await asked(requests, "0", caller="bob") == (201, True)

    asyncio.run(scenario())


def test_a_request_at_work_is_not_forgotten() -> None:
    """It would be done twice."""
    requests = RepeatedRequests()

    async def send(_: Message) -> None:
        pass

    async def scenario() -> None:
        async with requests.once("alice", "slow", "POST /v1/links?", b"", send):
            for number in range(1001):
                await asked(requests, str(number))
            with pytest.raises(RequestRefused, match="still being worked on"):
                await asked(requests, "slow")

    asyncio.run(scenario())


async def answered(
    requests: RepeatedRequests, key: str, *parts: bytes, caller: str = "alice"
) -> tuple[dict[str, str], bytes]:
    """The headers and the body that a caller gets; what has no parts was done already."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    size = sum(map(len, parts))
    headers = [(b"content-length", b"%d" % size), (b"content-type", b"application/json"), (b"location", b"/v1/links/l")]
    async with requests.once(caller, key, "POST /v1/links?", b"", send) as remembering:
        assert (remembering is not None) == bool(parts), "it is done once"
        if remembering is not None:
            await remembering({"type": "http.response.start", "status": 201, "headers": headers})
            for number, part in enumerate(parts, 1):
                await remembering({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
    assert sent[0]["status"] == 201
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]
    body = b"".join(message["body"] for message in sent[1:])
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}, body


def test_what_had_a_large_answer_is_not_done_again() -> None:
    """Its status and its headers are told without a body; whoever asked first got all of it."""
    requests = RepeatedRequests()

    async def scenario() -> None:
        whole = bytes(1 << 20)
        assert (await answered(requests, "large", whole, b"and more", b"still"))[1] == whole + b"and morestill"
        assert await answered(requests, "large") == ({"location": "/v1/links/l", "content-length": "0"}, b"")

    asyncio.run(scenario())


def test_answers_of_one_caller_are_kept_up_to_a_sum() -> None:
    """Of the oldest the status is kept alone, for the newest; those of others stay, and nothing is done again."""
    requests = RepeatedRequests()

    async def scenario() -> None:
        await answered(requests, "b", b"{}", caller="bob")
        for number in range(9):
            await answered(requests, f"{number}", bytes(1 << 20))

        found = [len((await answered(requests, f"{number}"))[1]) for number in range(9)]
        assert found == [0] + [1 << 20] * 8
        assert (await answered(requests, "b", caller="bob"))[1] == b"{}"

    asyncio.run(scenario())
