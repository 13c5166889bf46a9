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


def test_answers_of_one_caller_are_kept_up_to_a_sum() -> None:
    """The oldest are forgotten for the newest; those of others stay."""
    requests = RepeatedRequests()
    large = bytes(1 << 20)
    assert asyncio.run(asked(requests, "b", caller="bob")) == (201, True)
    for number in range(9):
        assert asyncio.run(asked(requests, f"{number}", answer=large)) == (201, True)

    assert [asyncio.run(asked(requests, key)) for key in ("1", "8")] == [(201, False)] * 2
    assert asyncio.run(asked(requests, "b", caller="bob")) == (201, False)
    assert asyncio.run(asked(requests, "0")) == (201, True)
