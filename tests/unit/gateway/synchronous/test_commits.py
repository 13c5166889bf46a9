"""Looks at transactions before and after they are decided, whatever a coordinator tells that was cut off."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.gateway.frames.committing import CommitAsked, CommitOwed, TransactionSeen, code_of_commit
from isthmus.gateway.frames.duties import NO_DUTIES
from isthmus.gateway.synchronous.commits import CommitLooks
from isthmus.kafka import codes
from isthmus.model.cluster import Cluster

SEEN = TransactionSeen(producer_id=5, producer_epoch=2, started_ms=70, is_open=True)


def told(state: str, *, started_ms: int = 70, epoch: int = 2, producer_id: int = 5, code: int = codes.NONE) -> Any:
    """What a coordinator says of the transaction."""
    one = SimpleNamespace(
        transaction_state=state, error_code=code, producer_id=producer_id, producer_epoch=epoch,
        transaction_start_time_ms=started_ms, topics=[],
    )  # fmt: skip
    return SimpleNamespace(transaction_states=[one])


class Source:
    """A cluster of which one broker after the other is taken for the coordinator, and answers as it is told."""

    def __init__(self, *found: Any, brokers: dict[int, Any] | None = None) -> None:
        self.cluster = Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",))
        self.sought = 0
        self._found = deque(found)
        self._brokers = brokers or {}

    async def coordinator(self, kind: str, key: str, request: Any) -> Any:
        """The next one answers, once the one before was forgotten."""
        return self._found.popleft()

    async def broker(self, node: int, request: Any) -> Any:
        """This one answers."""
        return self._brokers[node]

    def forget_coordinator(self, kind: str, key: str) -> None:
        """It is looked for anew."""
        self.sought += 1


@pytest.mark.parametrize(
    "last",
    [
        told("CompleteCommit"),
        told("CompleteCommit", epoch=3),
        told("Ongoing", started_ms=90),
        told("Ongoing", epoch=3, started_ms=70),
        told("Empty", epoch=3, started_ms=-1),
        told("Ongoing", producer_id=9, epoch=0, started_ms=1),
        told("", code=codes.TRANSACTIONAL_ID_NOT_FOUND),
    ],
)
def test_a_coordinator_that_was_cut_off_ends_no_commit(last: Any) -> None:
    """It calls the transaction open that has been decided since, or tells of the one before: another one is asked, as
    the end of the transaction may be nowhere yet.
    """
    late = told("Ongoing"), told("CompleteCommit", started_ms=30), told("Empty", epoch=1, started_ms=-1)
    source = Source(*late, told("PrepareCommit"), last)

    asyncio.run(
        CommitLooks(NO_DUTIES, cast("Any", source)).wait_until_complete(
            CommitOwed(CommitAsked("id", 4, 9, 0.0), seen=SEEN)
        )
    )

    assert not source._found
    assert source.sought == len(late)


def test_what_a_transaction_has_is_asked_of_the_broker_that_its_commit_goes_to() -> None:
    """Another one that is taken for the coordinator would tell of the time before: what was written since would not be
    waited for. One that is none has nothing committed.
    """
    brokers = {2: told("Ongoing"), 3: told("", code=codes.NOT_COORDINATOR)}
    source = Source(told("CompleteCommit", started_ms=30), told("CompleteCommit", started_ms=30), brokers=brokers)
    looks = CommitLooks(NO_DUTIES, cast("Any", source))

    async def story() -> None:
        owed = await looks.look(CommitAsked("id", 4, 9, 0.0, 2))
        assert isinstance(owed, CommitOwed)
        assert (owed.seen, owed.is_all) == (SEEN, False)
        assert await looks.look_again(owed) == owed
        refused = await looks.look(CommitAsked("id", 4, 9, 0.0, 3))
        assert isinstance(refused, bytes)
        assert code_of_commit(memoryview(refused), 4) == codes.COORDINATOR_NOT_AVAILABLE

    asyncio.run(story())
