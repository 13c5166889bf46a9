"""Commits at the target, each only if nothing has changed since it was decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from isthmus.errors import ClusterError, NotAuthorized, Unreachable, UnsupportedByBroker
from isthmus.groups.transaction import PATIENCE_S, Accepted, GroupTransaction, Placed, commit_outside
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, describe_groups
from isthmus.kafka.transactions.elders import groups_with_elders
from isthmus.model.naming import TargetTopic

CommitGuard = Literal["transaction", "membership"]
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """The positions to commit for one group. `based_on` are the target's positions the decision was made on."""

    positions: Positions[TargetTopic]
    based_on: Positions[TargetTopic]

    @property
    def sets_back(self) -> bool:
        """Whether a position at the target becomes a lower one."""
        return any(self.positions[key].offset < found.offset for key, found in self.based_on.items())


@dataclass(slots=True)
class CommitOutcome:
    """The outcome of commits, by group. `done` has what was accepted of each. `changed` are those whose target was not
    as it had been; nothing was written.

    `uncertain` are those that may or may not have been committed: look at the target.
    """

    done: dict[str, Accepted] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    errors: dict[str, ClusterError] = field(default_factory=dict)

    def add(self, other: CommitOutcome) -> None:
        """Add the outcome of further groups."""
        self.done.update(other.done)
        self.changed |= other.changed
        self.uncertain |= other.uncertain
        self.errors.update(other.errors)


class GroupCommitter:
    """Commits for the groups of one link. `guard` is what keeps a commit from overwriting a real consumer's.

    With "transaction" no commit is ever lost. With "membership" the broker refuses a group that has members, but a
    consumer that came, committed and went in the few ms between look and commit loses its commit; `reason` is why only
    that is possible.
    """

    def __init__(self, client: Client, link: str) -> None:
        self.guard: CommitGuard = "transaction"
        self.reason = ""
        self._client = client
        self._link = link
        self._transaction: GroupTransaction | None = None

    async def commit(self, commits: Mapping[str, GroupCommit]) -> CommitOutcome:
        """Commit what still may be committed. The outcome of each group is its own.

        :raises ClusterError: The target as a whole did not answer; nothing was committed.
        """
        outcome = CommitOutcome()
        remaining = dict(commits)
        for _ in range(_ROUNDS):
            if not remaining:
                return outcome
            transaction = await self._begin_transaction()
            if transaction is None:
                await self._commit_outside(remaining, outcome)
                return outcome
            found = CommitOutcome()
            try:
                remaining = await self._round(transaction, remaining, found)
            except ClusterError as error:
                # All of this round is repeated: its results do not count.
                self._transaction = None
                if not GroupTransaction.is_lost(error):
                    raise
            else:
                outcome.add(found)
        outcome.changed.update(remaining)
        return outcome

    async def clear(self, groups: Sequence[str]) -> None:
        """End a commit of this link that came too late and is pending for groups; see `GroupTransaction.clear`.

        :raises ClusterError: The target did not answer.
        """
        transaction = await self._begin_transaction()
        if transaction is not None:
            try:
                await transaction.clear(groups)
            except ClusterError as error:
                self._transaction = None
                if not GroupTransaction.is_lost(error):
                    raise

    async def _begin_transaction(self) -> GroupTransaction | None:
        """Return the transaction, ready for commits; `None` where it is not permitted."""
        if self._transaction is None and self.guard == "transaction":
            transaction = GroupTransaction(self._client, self._link)
            try:
                await transaction.initialize()
            except (NotAuthorized, UnsupportedByBroker) as error:
                self.guard, self.reason = "membership", str(error)
                return None
            self._transaction = transaction
        return self._transaction

    async def _round(
        self, transaction: GroupTransaction, commits: Mapping[str, GroupCommit], outcome: CommitOutcome
    ) -> dict[str, GroupCommit]:
        """Run one transaction over all groups; return those to be retried, without those that prevented it."""
        placed = await self._place(transaction, commits)
        outcome.errors.update({**placed.refused, **placed.doubtful})
        changed = await self._find_changed(commits, placed.groups.keys(), outcome, transaction.producer_id)
        outcome.changed |= changed
        left = {group: commits[group] for group in placed.groups.keys() - changed}
        if changed or placed.doubtful or not left:
            if transaction.is_open:
                await self._end(transaction, commit=False)
            return left
        try:
            await self._end(transaction, commit=True)
        except Unreachable:
            outcome.uncertain |= left.keys()
            self._transaction = None
        else:
            outcome.done.update((group, placed.groups[group]) for group in left)
        return {}

    async def _place(self, transaction: GroupTransaction, commits: Mapping[str, GroupCommit]) -> Placed:
        return await transaction.place({group: commit.positions for group, commit in commits.items()})

    async def _end(self, transaction: GroupTransaction, *, commit: bool) -> None:
        await transaction.end(commit=commit)

    async def _find_changed(
        self, commits: Mapping[str, GroupCommit], groups: Collection[str], outcome: CommitOutcome, producer_id: int
    ) -> set[str]:
        """Return the groups that are not as they were at the decision, or cannot be looked at."""
        if not groups:
            return set()
        # Before the positions: what such a transaction commits now shows there. Where brokers do not report them, a
        # consumer that left its group with a transaction open is not excluded.
        elders = await groups_with_elders(self._client, groups, producer_id) or frozenset()
        described = await describe_groups(self._client, groups, patience_s=PATIENCE_S)
        positions: CommittedOffsets[TargetTopic] = await committed_offsets(self._client, groups, patience_s=PATIENCE_S)
        outcome.errors.update({**described.errors, **positions.errors})
        return {
            group
            for group in groups
            if group in elders
            or group not in described.values
            or not described.values[group].state.is_vacant
            or group not in positions.values
            or _differs(commits[group], positions.values[group])
        }

    async def _commit_outside(self, commits: Mapping[str, GroupCommit], outcome: CommitOutcome) -> None:
        changed = await self._find_changed(commits, commits.keys(), outcome, -1)
        outcome.changed |= changed
        left = {group: commit.positions for group, commit in commits.items() if group not in changed}
        committed = await commit_outside(self._client, left)
        outcome.done.update(committed.values)
        outcome.errors.update(committed.errors)
        outcome.uncertain |= {group for group, error in committed.errors.items() if error.retryable}


def _differs(commit: GroupCommit, positions: Positions[TargetTopic]) -> bool:
    return any(commit.based_on.get(key) != positions.get(key) for key in commit.positions)
