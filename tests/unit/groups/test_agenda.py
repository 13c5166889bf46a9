"""The agenda of groups against a model: whatever has changed is looked at until that succeeds, and a pass has all."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.groups.agenda import GroupAgenda
from isthmus.groups.positions.carrying import Standing

GROUPS = ["a", "b", "c"]
INTERVAL_S = 5
EVERY_S = {Standing.CATCHING_UP: 0.5, Standing.UNAVAILABLE: 2.0, Standing.IN_STEP: None}
"""How often groups with some standings are looked at by themselves."""


class Looking(RuleBasedStateMachine):
    """Looks that succeed or fail, at groups that change meanwhile.

    `wanted` are the passes that were asked for, each with the number of looks before. `begun` is the last look that had
    all groups, and `over` the last one of these whose groups were looked at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.agenda = GroupAgenda(INTERVAL_S)
        self.now = 100.0
        self.due: set[str] = set()
        self.standings: dict[str, Standing] = {}
        self.again_at = dict.fromkeys(EVERY_S, 0.0)
        self.all_at = 0.0
        self.looks = 0
        self.wanted: dict[int, int] = {}
        self.begun = self.over = 0

    @rule(after_s=st.integers(1, 12))
    def wait(self, after_s: int) -> None:
        """Time passes, in quarters of a second."""
        self.now += after_s / 4

    @rule(groups=st.sets(st.sampled_from(GROUPS)))
    def commit(self, groups: set[str]) -> None:
        """Clients commit at the source."""
        self.agenda.add(groups)
        self.due |= groups

    @rule(group=st.sampled_from(GROUPS), standing=st.sampled_from(sorted(EVERY_S)))
    def change(self, group: str, standing: Standing) -> None:
        """A look has found that a group stands otherwise."""
        self.standings[group] = standing

    @rule()
    def ask(self) -> None:
        """A pass is asked for, which begins later than this."""
        self.wanted[self.agenda.want_pass()] = self.looks

    @rule(end=st.sampled_from(["refused", "failed", "done"]))
    def look(self, end: str) -> None:
        """The source may refuse to list its groups, or one of them to be looked at."""
        self.looks += 1
        is_wanted = any(asked >= self.begun for asked in self.wanted.values())
        begins = self.agenda.begin_pass(self.now)
        assert begins == (is_wanted or self.now >= self.all_at)
        if begins and end == "refused":
            self.all_at = 0.0
            return
        if begins:
            self.agenda.add_all(GROUPS, self.now)
            self.due |= set(GROUPS)
            self.all_at, self.begun = self.now + INTERVAL_S, self.looks
        for standing, every_s in EVERY_S.items():
            if every_s is not None and self.now >= self.again_at[standing]:
                self.due |= {group for group, found in self.standings.items() if found is standing}
                self.again_at[standing] = self.now + every_s
        due = self.agenda.list_due(self.now, self.standings)
        assert due == self.due
        if end == "done":
            self.agenda.end_look(due)
            self.due.clear()
            self.over = self.begun

    @invariant()
    def pass_is_over_once_all_were_looked_at_since(self) -> None:
        """Not before, as a pass that was under way may have seen an older state."""
        for number, asked in self.wanted.items():
            assert self.agenda.has_ended(number) == (self.over > asked)


TestLooking = Looking.TestCase
