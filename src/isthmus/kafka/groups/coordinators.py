"""Asks the coordinators of many groups at once, with retries while coordinators move, load or do not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.rights import Right

AnswerT = TypeVar("AnswerT")

GROUPS_PER_REQUEST: Final = 100
PATIENCE_S: Final = 10.0
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 1.0
_ONE_BY_ONE: Final = 32
_GROUP: Final = 0
_BATCHED_FROM: Final = 4


class Answer(NamedTuple, Generic[AnswerT]):
    """A coordinator's answer about one group: an error code, or a value."""

    code: int
    value: AnswerT | None = None
    detail: str | None = None


Ask = Callable[[int, Sequence[str]], Awaitable[Mapping[str, Answer[AnswerT]]]]
"""Asks one node about some groups whose coordinator it is."""
Rights = Callable[[str], tuple[Right, Right]]
"""Returns the rights that a request needs for a group."""


class _Attempt(Generic[AnswerT]):
    """The answers after some tries; `left` are the groups to ask for again."""

    def __init__(self, client: Client, groups: Collection[str], what: str, rights: Rights) -> None:
        self.values: dict[str, AnswerT] = {}
        self.errors: dict[str, ClusterError] = {}
        self.left: set[str] = set(groups)
        self._alias = client.cluster.alias
        self._what = what
        self._rights = rights

    def take(self, group: str, answer: Answer[AnswerT]) -> None:
        self.errors.pop(group, None)
        if answer.code in codes.GROUP_PASSES:
            self.errors[group] = self._error(group, answer)
            return
        self.left.discard(group)
        if answer.value is not None and answer.code == codes.NONE:
            self.values[group] = answer.value
        else:
            self.errors[group] = self._error(group, answer)

    def fail(self, group: str, error: ClusterError) -> None:
        self.errors[group] = error
        if not error.retryable:
            self.left.discard(group)

    def _error(self, group: str, answer: Answer[AnswerT]) -> ClusterError:
        what = f"{self._what} {group}"
        return codes.error_for(answer.code, what, *self._rights(group), cluster=self._alias, detail=answer.detail)


async def ask_coordinators(
    client: Client,
    groups: Collection[str],
    ask: Ask[AnswerT],
    what: str,
    rights: Rights,
    *,
    patience_s: float = PATIENCE_S,
) -> Outcomes[str, AnswerT]:
    """Ask the coordinators about each group: one request for each coordinator and slice of groups.

    If a coordinator moves, loads or does not answer, its groups are asked for again, with growing pauses, until
    `patience_s` is over. Each group has its own error. `what` is a phrase such as "describing group", and `rights`
    returns the rights it needs.
    """
    attempt: _Attempt[AnswerT] = _Attempt(client, groups, what, rights)
    deadline = Deadline(patience_s)
    pause_s = _PAUSE_MIN_S
    while attempt.left:
        await _ask_once(client, attempt, ask)
        if not attempt.left or deadline.passes_within(pause_s):
            break
        await asyncio.sleep(pause_s)
        # A broker that came back may have another address.
        with contextlib.suppress(ClusterError):
            await client.metadata()
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)
    return Outcomes(attempt.values, attempt.errors)


async def ask_node(
    client: Client, node: int, groups: Collection[str], ask: Ask[AnswerT], what: str, rights: Rights
) -> Outcomes[str, AnswerT]:
    """Ask one broker about the groups, once, whichever broker is taken for the coordinator."""
    attempt: _Attempt[AnswerT] = _Attempt(client, groups, what, rights)
    await _ask_nodes(attempt, ask, {node: sorted(groups)})
    return Outcomes(attempt.values, attempt.errors)


async def _ask_once(client: Client, attempt: _Attempt[AnswerT], ask: Ask[AnswerT]) -> None:
    by_node: dict[int, list[str]] = defaultdict(list)
    try:
        found = await find_coordinators(client, sorted(attempt.left))
    except ClusterError as error:
        for group in list(attempt.left):
            attempt.fail(group, error)
        return
    for group, answer in found.items():
        if answer.value is None:
            attempt.take(group, Answer(answer.code, None, answer.detail))
        else:
            by_node[answer.value].append(group)
    await _ask_nodes(attempt, ask, by_node)


async def _ask_nodes(attempt: _Attempt[AnswerT], ask: Ask[AnswerT], by_node: Mapping[int, Sequence[str]]) -> None:
    slices = [
        (node, groups[begin : begin + GROUPS_PER_REQUEST])
        for node, groups in by_node.items()
        for begin in range(0, len(groups), GROUPS_PER_REQUEST)
    ]
    await asyncio.gather(*(_ask_slice(attempt, ask, node, groups) for node, groups in slices))


async def _ask_slice(attempt: _Attempt[AnswerT], ask: Ask[AnswerT], node: int, groups: Sequence[str]) -> None:
    try:
        answers = await ask(node, groups)
    except ClusterError as error:
        for group in groups:
            attempt.fail(group, error)
        return
    for group in groups:
        attempt.take(group, answers.get(group, Answer(codes.COORDINATOR_NOT_AVAILABLE)))


async def find_coordinators(client: Client, groups: Sequence[str]) -> dict[str, Answer[int]]:
    """Find the node that coordinates each group, or the error code: one attempt, one request if brokers support it.

    :raises ClusterError: No broker answered.
    """
    request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=list(groups), min_version=_BATCHED_FROM)
    try:
        answer = await client.any(request)
    except UnsupportedByBroker:
        return await _find_one_by_one(client, groups)
    return {c.key: _build_answer(c.error_code, c.node_id, c.error_message) for c in answer.coordinators}


async def _find_one_by_one(client: Client, groups: Sequence[str]) -> dict[str, Answer[int]]:
    free = asyncio.Semaphore(_ONE_BY_ONE)

    async def find(group: str) -> Answer[int]:
        async with free:
            request = FindCoordinatorRequest(key=group, key_type=_GROUP, max_version=_BATCHED_FROM - 1)
            answer = await client.any(request)
        return _build_answer(answer.error_code, answer.node_id, answer.error_message)

    return dict(zip(groups, await asyncio.gather(*map(find, groups)), strict=True))


def _build_answer(code: int, node_id: int, detail: str | None) -> Answer[int]:
    return Answer(code, node_id if code == codes.NONE else None, detail)
