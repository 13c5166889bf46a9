"""Commits for groups in transactions of ours: what became of each group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.groups.committing import CommitOutcome, GroupCommit, GroupCommitter
from isthmus.groups.transaction import Accepted, GroupTransaction, Placed
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import TargetTopic

SILENT = Unreachable("a broker does not answer: timed out", cluster="west")
RAN_OUT = BrokerRefused("the transaction ran out", code=codes.INVALID_PRODUCER_EPOCH, name="INVALID_PRODUCER_EPOCH")
COMMITS = {
    name: GroupCommit(positions={(TargetTopic("orders"), 0): Committed(5)}, based_on={})
    for name in ("billing", "stock")
}


class Told:
    """A transaction that places all but the groups whose broker is `silent`, and whose end may be refused."""

    producer_id = 7

    def __init__(self, *silent: str, refused: ClusterError | None = None) -> None:
        self._silent, self._refused = silent, refused
        self.is_open = False

    async def place(self, commits: Mapping[str, Any]) -> Placed:
        self.is_open = True
        accepted = {group: Accepted() for group in commits if group not in self._silent}
        return Placed(accepted, doubtful=dict.fromkeys(commits.keys() & set(self._silent), SILENT))

    async def end(self, *, commit: bool) -> None:
        if self._refused is not None:
            raise self._refused
        self.is_open = False


def outcome_of(monkeypatch: pytest.MonkeyPatch, *told: Told) -> CommitOutcome:
    """What becomes of the commits in these transactions, one after the other; nothing changes meanwhile."""
    left = list(told)

    async def begun(committer: GroupCommitter) -> GroupTransaction:
        if committer._transaction is None:
            committer._transaction = cast(Any, left.pop(0))
        return cast(GroupTransaction, committer._transaction)

    async def changed(*_: object) -> set[str]:
        return set()

    monkeypatch.setattr(GroupCommitter, "_begin_transaction", begun)
    monkeypatch.setattr(GroupCommitter, "_find_changed", changed)

    async def scenario() -> CommitOutcome:
        async with Client(Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))) as client:
            return await GroupCommitter(client, "l").commit(COMMITS)

    return asyncio.run(scenario())


def test_what_failed_in_a_transaction_that_ran_out_is_not_told_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is committed then counts as committed: its position would be taken for one that others set."""
    outcome = outcome_of(monkeypatch, Told("billing", refused=RAN_OUT), Told())
    assert outcome.done.keys() == COMMITS.keys()
    assert not outcome.errors


def test_who_keeps_silent_keeps_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something of it may be in the transaction, so that is aborted, and the others are committed in the next one."""
    outcome = outcome_of(monkeypatch, Told("billing"))
    assert outcome.errors.keys() == {"billing"}
    assert outcome.done.keys() == {"stock"}
