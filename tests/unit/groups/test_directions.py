"""Two links, one each way, that carry the same position: in any order, with any delay, and through restarts.

Each cluster has a log of commits. A link reads the log of its source, some time later looks at its target and decides,
and some time later commits there if nothing changed since. Consumers commit at either side in between.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from isthmus.groups.memory import GroupMemory
from isthmus.groups.observation import GroupsView, GroupView
from isthmus.groups.plan import GroupPlan, commit_of, plan_groups
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.translation import Translation
from isthmus.kafka.batches.batch import CONTROL, scan
from isthmus.kafka.commits.table import CommitTable
from isthmus.ledger.documents.kinds import Document
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import Committed, GroupDescription, GroupState, GroupType
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from testing.records.stored import PLAIN, stored
from testing.values.commits import key, value

GROUP: Final = "billing"
KEY: Final[tuple[Any, int]] = ("orders", 0)
BEGIN: Final = 4
OTHERS: Final = 77
"""The producer id of a consumer that commits in transactions."""
_MARKER: Final = PLAIN._replace(key=b"\x00\x00\x00\x01", value=b"\x00" * 6)


class Side:
    """A cluster: its log of commits, and what that amounts to."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.committed = Committed(BEGIN)
        self.commit(self.committed)

    def commit(self, committed: Committed, producer_id: int = -1) -> None:
        self.committed = committed
        record = PLAIN._replace(key=key(1, GROUP, *KEY), value=value(3, committed, 0))
        is_transactional = producer_id >= 0
        self.log.append(stored(len(self.log), [record], producer_id=producer_id, transactional=is_transactional))
        if is_transactional:
            marker = stored(len(self.log), [_MARKER], producer_id=producer_id, transactional=True, attributes=CONTROL)
            self.log.append(marker)


class OneWay:
    """A link from `source` to `target`, which commits as `producer_id`; its counterpart is `counterpart`."""

    def __init__(self, source: Side, target: Side, producer_id: int, counterpart: int) -> None:
        self.source, self.target = source, target
        self.producer_id, self.counterpart = producer_id, counterpart
        self.commits = 0
        self.documents: dict[str, Document] = {}
        self.restart()

    def restart(self) -> None:
        """Begin anew with what is in the ledger."""
        self.memory = GroupMemory("link", self.documents)
        self.table = CommitTable(lambda group: True)
        self.plan: GroupPlan | None = None
        self._offset = 0
        self.read()
        self.table.begin()

    def read(self) -> None:
        """Read the log of the source to its end."""
        for data in self.source.log[self._offset :]:
            (batch,) = scan(data)
            self.table.take(0, batch)
        self._offset = len(self.source.log)

    def look(self) -> None:
        """Look at the target, and decide."""
        theirs = {producer_id: "back" if producer_id == self.counterpart else "" for producer_id in (1, 2, OTHERS)}
        found = self.memory.echoes(GROUP, self.table.find_transacted(GROUP), theirs)
        offsets = {self.table[GROUP][KEY].offset, *(one.committed.offset for one in found.values())}
        empty = GroupDescription(
            group=GROUP,
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY,
            protocol_type="",
            protocol="",
            members=(),
            coordinator=1,
        )
        group = GroupView(
            group=GROUP,
            target_group=GROUP,
            positions=self.table[GROUP],
            echoes=found,
            target=empty,
            committed={KEY: self.target.committed},
        )
        view = GroupsView(
            link="link",
            settings=GroupSettings(),
            groups=(group,),
            mirrored={SourceTopic("orders"): TargetTopic("orders")},
            ranges={KEY: LogRange(0, 100, 100)},
            translated=Translation({(KEY, offset): offset for offset in offsets}),
        )
        self.memory.settle(GROUP, {KEY: self.target.committed})
        self.memory.note_echo(view, group)
        (self.plan,) = plan_groups(view, self.memory.written)

    def act(self) -> None:
        """Commit what was decided, if the target is as it was then."""
        plan, self.plan = self.plan, None
        commit = None if plan is None else commit_of(plan)
        if plan is None:
            return
        if commit is None:
            self.memory.note_agreement(plan)
        elif commit.based_on[KEY] == self.target.committed:
            self.target.commit(commit.positions[KEY], self.producer_id)
            self.commits += 1
            self.memory.note_commit(plan)
        self.memory.stands(plan)

    def remember(self) -> None:
        """Write down what changed."""
        for change in self.memory.changes(1):
            assert isinstance(change, Document)
            self.documents[change.key] = change

    def stop_and_start(self) -> None:
        """Come to an end in order, and begin anew with what is in the ledger."""
        self.carry()
        self.remember()
        self.restart()

    def carry(self) -> None:
        """All of it, at once."""
        self.act()
        self.read()
        self.look()
        self.act()


class Both:
    """Two clusters and a link each way; a consumer moved the position to `last`."""

    def __init__(self) -> None:
        east, west = Side(), Side()
        self.sides = east, west
        self.links = OneWay(east, west, 1, 2), OneWay(west, east, 2, 1)
        self.last = Committed(BEGIN)
        for link in self.links:
            link.carry()

    def move(self, at: int, offset: int, *, in_transaction: bool = False, metadata: str = "") -> None:
        """A consumer commits at one side."""
        self.last = Committed(offset, metadata=metadata)
        self.sides[at].commit(self.last, OTHERS if in_transaction else -1)

    def come_to_rest(self) -> None:
        """Let both links run until there is nothing to do: soon after what they have decided already."""
        before = sum(link.commits for link in self.links)
        decided = sum(link.plan is not None and commit_of(link.plan) is not None for link in self.links)
        for _ in range(3):
            for link in self.links:
                link.carry()
        done = sum(link.commits for link in self.links)
        assert done - before <= 2 + decided
        for link in self.links:
            link.carry()
        assert sum(link.commits for link in self.links) == done


Steps = list[tuple[int, str]]
Moves = dict[str, Any]
offsets = st.integers(0, 12)
links = st.integers(0, 1)
delays = st.lists(st.tuples(links, st.sampled_from(("read", "look", "act"))), max_size=4)
restarts = st.lists(st.tuples(links, st.sampled_from(("read", "look", "act", "stop_and_start"))), max_size=4)
moves = st.fixed_dictionaries({"at": links, "offset": offsets}, optional={"in_transaction": st.booleans()})
noted = st.fixed_dictionaries({"at": links, "offset": offsets}, optional={"metadata": st.sampled_from("ab")})


def run(both: Both, steps: Steps) -> None:
    """What the links happen to do in between."""
    for link, step in steps:
        getattr(both.links[link], step)()


def carried(history: list[tuple[Steps, Moves, Steps]]) -> Both:
    """Each move is carried before the next one; what else the links do may be late."""
    both = Both()
    for before, move, after in history:
        run(both, before)
        both.links[move["at"]].act()
        both.move(**move)
        both.links[move["at"]].carry()
        run(both, after)
    both.come_to_rest()
    return both


@given(st.lists(st.tuples(restarts, moves, restarts), max_size=6))
def test_what_was_carried_is_not_undone(history: list[tuple[Steps, Moves, Steps]]) -> None:
    """Where every move has been carried before the next one, both sides end where it was moved last, however late the
    link in the other direction is.
    """
    both = carried(history)
    assert [side.committed.offset for side in both.sides] == [both.last.offset, both.last.offset]


@given(st.lists(st.tuples(delays, noted, delays), max_size=6))
def test_metadata_that_was_carried_is_not_undone(history: list[tuple[Steps, Moves, Steps]]) -> None:
    """The same of what stands beside a position, as long as no link is restarted: the ledger does not remember it."""
    both = carried(history)
    assert [side.committed for side in both.sides] == [both.last, both.last]


@given(st.lists(st.tuples(moves, restarts), max_size=8))
@example(
    [
        ({"at": 0, "offset": 2}, [(0, "read")]),
        ({"at": 1, "offset": 1}, [(1, "read")]),
        ({"at": 0, "offset": 0}, [(0, "look"), (1, "look")]),
    ]
)
def test_links_come_to_rest(history: list[tuple[Moves, Steps]]) -> None:
    """Whoever moves what at the same time, soon nobody commits any more. Then both sides stand at the same position, or
    the links say that they do not.
    """
    both = Both()
    for move, after in history:
        both.move(**move)
        run(both, after)
    both.come_to_rest()
    east, west = (side.committed.offset for side in both.sides)
    for link in both.links:
        link.look()
    told = {link.plan.standing for link in both.links if link.plan is not None}
    assert told == ({Standing.IN_STEP} if east == west else {Standing.AHEAD_AT_TARGET, Standing.MOVED_AT_TARGET})


def test_a_set_back_that_the_other_link_is_late_for() -> None:
    """Set forward and back at the target while the link is away: what came from there is no news from here."""
    both = Both()
    forth, back = both.links
    both.move(1, 9)
    back.carry()
    forth.read()
    both.move(1, 2)
    forth.look()
    assert forth.plan is not None
    assert forth.plan.standing is Standing.MOVED_AT_TARGET
    both.come_to_rest()
    assert {side.committed.offset for side in both.sides} == {2}
