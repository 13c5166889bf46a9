"""The positions written for groups, and how the groups stood: kept in memory, and in the ledger so that it survives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from isthmus.groups.observation import Echoes, GroupsView, GroupView
from isthmus.groups.plan import GroupPlan, Memory
from isthmus.groups.positions.carrying import Written
from isthmus.kafka.commits.table import Transacted
from isthmus.kafka.groups.groups import Positions
from isthmus.ledger.documents.kinds import Document, GroupDocument, GroupPosition
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.naming import NOWHERE, SourceTopicPartition, TargetTopic, TargetTopicPartition


class GroupMemory:
    """The memory of one link's groups. `changes` has what changed since it was last written to the ledger.

    Losing it costs no position: it only means that none is moved back.
    """

    def __init__(self, link: str, documents: Mapping[str, Document]) -> None:
        self._link = link
        self._documents = {each.group: each for each in GroupDocument.find_all(documents.values(), link)}
        self._written: dict[str, dict[TargetTopicPartition, Written]] = {
            group: _from_positions(document.positions) for group, document in self._documents.items()
        }
        self._attempted: dict[str, dict[TargetTopicPartition, Written]] = {
            group: _from_positions(document.attempted)
            for group, document in self._documents.items()
            if document.attempted
        }
        self._changed: set[str] = set()
        self._heard: dict[str, dict[SourceTopicPartition, int]] = {}

    @property
    def groups(self) -> frozenset[str]:
        """The groups that are known."""
        return frozenset(self._documents)

    @property
    def written(self) -> Mapping[str, Memory]:
        """What was last written, by group."""
        return self._written

    def settle(self, group: str, committed: Positions[TargetTopic]) -> None:
        """Settle, by the positions found at the target, whether the last attempt without an answer succeeded."""
        for key, written in self._attempted.pop(group, {}).items():
            found = committed.get(key)
            if found is not None and found.offset == written.target:
                self._written.setdefault(group, {})[key] = written

    def echoes(
        self, group: str, transacted: Mapping[SourceTopicPartition, Collection[Transacted]], theirs: Mapping[int, str]
    ) -> Echoes:
        """Return the commits of links in the other direction at the source since the last call of `note_echo`.

        `theirs` names, for each producer, the link of that direction that it belongs to, "" for none.
        """
        newest = {
            key: max(found)
            for key, commits in transacted.items()
            if (found := [one for one in commits if theirs[one.producer_id]])
        }
        heard = self._heard.get(group, {})
        return {key: echo for key, echo in newest.items() if heard.get(key) != echo.place}

    def note_echo(self, view: GroupsView, group: GroupView) -> None:
        """Count commits of a link in the other direction at the source as written here.

        Such a commit came later than all that was written: else it would have been heard when that was decided.
        """
        for key, echo in group.echoes.items():
            topic, partition = key
            target_key = (view.mirrored.get(topic, NOWHERE), partition)
            translated = view.translated.offsets.get((target_key, echo.committed.offset))
            if translated is not None:
                self._heard.setdefault(group.group, {})[key] = echo.place
                written = Written(echo.committed.offset, translated, echo.committed.metadata)
                self._written.setdefault(group.group, {})[target_key] = written

    def attempting(self, plan: GroupPlan) -> None:
        """Note a commit that sets a position back before it is sent: write `changes` to the ledger first.

        Else, if this process ends there, its successor would take it for a commit of a consumer.
        """
        self.note_attempt(plan)
        self.stands(plan)

    def note_attempt(self, plan: GroupPlan) -> None:
        """Note that a commit was sent, and its answer got lost."""
        self._attempted[plan.group] = _written_positions(plan)

    def note_commit(self, plan: GroupPlan) -> None:
        """Note that a commit was made."""
        self._attempted.pop(plan.group, None)
        self._written.setdefault(plan.group, {}).update(_written_positions(plan))

    def note_agreement(self, plan: GroupPlan) -> None:
        """Count the target's position as written where it is the one to be written, no matter which client wrote it.

        So a ledger that was lost comes back, and a group that is in step follows its source back.
        """
        known = self._written.setdefault(plan.group, {})
        for p in plan.positions:
            if p.commit is None and p.committed is not None and p.committed.offset == p.translated:
                known[p.target_key] = Written(p.basis.offset, p.committed.offset, p.basis.metadata)

    def stands(self, plan: GroupPlan) -> None:
        """Note how the group stands now."""
        document = GroupDocument(
            link=self._link,
            group=plan.group,
            standing=str(plan.standing),
            positions=_to_positions(self._written.get(plan.group, {})),
            attempted=_to_positions(self._attempted.get(plan.group, {})),
            problem=plan.problem,
        )
        if self._documents.get(plan.group) != document:
            self._documents[plan.group] = document
            self._changed.add(plan.group)

    def forget(self, group: str) -> None:
        """Forget a group that is gone on both sides."""
        self._written.pop(group, None)
        self._attempted.pop(group, None)
        self._heard.pop(group, None)
        if self._documents.pop(group, None) is not None:
            self._changed.add(group)

    def changes(self, limit: int) -> list[LedgerChange]:
        """Return the changes to write to the ledger, at most so many documents; `note_stored` confirms them."""
        return [self._change(group) for group in sorted(self._changed)[:limit]]

    def note_stored(self, changes: Iterable[LedgerChange]) -> None:
        """Note that these are in the ledger. Later changes stay to be written."""
        keys = {change.key: change for change in changes}
        for group in list(self._changed):
            change = self._change(group)
            if keys.get(change.key) == change:
                self._changed.discard(group)

    def _change(self, group: str) -> LedgerChange:
        return self._documents.get(group) or Deletion(GroupDocument.key_of(self._link, group))


def _written_positions(plan: GroupPlan) -> dict[TargetTopicPartition, Written]:
    return {
        p.target_key: Written(p.basis.offset, p.commit, p.basis.metadata)
        for p in plan.positions
        if p.commit is not None
    }


def _from_positions(positions: Iterable[GroupPosition]) -> dict[TargetTopicPartition, Written]:
    return {(p.topic, p.partition): Written(p.source, p.target) for p in positions}


def _to_positions(written: Memory) -> tuple[GroupPosition, ...]:
    return tuple(
        GroupPosition(topic, partition, each.source, each.target)
        for (topic, partition), each in sorted(written.items())
    )
