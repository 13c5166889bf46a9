"""The belief in the end of a target's log against a model that knows what was compared, and what was not."""

from __future__ import annotations

import uuid

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.engine.state.belief import Belief, TailCheck
from isthmus.model.lane import NO_END, Lane, LaneMark, milestone_of
from isthmus.model.naming import SourceTopic, TargetTopic

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=3,
)
NEEDED = st.sampled_from([TailCheck.PRODUCER, TailCheck.CONTENT])


class Owner(RuleBasedStateMachine):
    """An owner of a lane: it writes behind an end that is believed, and looks again whenever that is in doubt.

    `compared_to` is how far it, or an owner before, has had the target's end believed; -1 before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.belief = Belief()
        self.position = self.compared_to = -1
        self.marks: dict[type, int] = {}
        self.is_believed = self.is_disproved = False

    @precondition(lambda self: self.position < 0)
    @rule(position=st.integers(0, 30), is_mark=st.booleans())
    def recall(self, position: int, is_mark: bool) -> None:
        """The previous owner reports how far it came, before the first look."""
        mark = LaneMark(*LANE.key, position, 7)
        self.belief.recall(mark if is_mark else milestone_of(LANE, mark), LANE)
        self.marks[LaneMark if is_mark else object] = position

    @rule(position=st.integers(0, 40), check=NEEDED, is_known=st.booleans())
    def look(self, position: int, check: TailCheck, is_known: bool) -> None:
        """The log is looked at. Where it ends elsewhere than expected, it has to be checked."""
        before, self.position = self.position, position
        self.belief.look(before)
        if before < 0:
            self.compared_to = self.marks.get(LaneMark, self.marks.get(object, -1))
        elif self.is_believed:
            self.compared_to = before
        if position != before:
            self.belief.expect(check, is_known=is_known)
            self.is_believed = False
            assert (self.belief.check, self.belief.is_known) == (check, is_known)
        assert self.belief.tail_epoch == -1

    @rule(epoch=st.integers(0, 9), start=st.integers(0, 9))
    def compare(self, epoch: int, start: int) -> None:
        """What was found changes no belief by itself."""
        before = self.belief.check
        self.belief.compare(epoch, None, start)
        assert (self.belief.tail_epoch, self.belief.target_start, self.belief.check) == (epoch, start, before)

    @precondition(lambda self: self.position >= 0)
    @rule(epoch=st.integers(0, 9))
    def believe(self, epoch: int) -> None:
        """The check was passed."""
        self.belief.believe(epoch)
        self.is_believed = True
        assert (self.belief.source_epoch, self.belief.is_known) == (epoch, True)

    @rule()
    def doubt(self) -> None:
        """However well it was left: now records have to be compared."""
        self.belief.doubt()
        self.is_believed = False
        assert self.belief.check is TailCheck.CONTENT

    @precondition(lambda self: self.position >= 0)
    @rule(proven_end=st.integers(-1, 40))
    def disprove(self, proven_end: int) -> None:
        """The target is right up to what was proven, or else no further than it was ever known to be."""
        self.belief.disprove(proven_end, self.position)
        self.is_disproved = True
        known = {self.compared_to, *self.marks.values()}
        assert self.belief.proven_end in ({proven_end} if proven_end >= 0 else {-1, *known})
        assert proven_end >= 0 or self.belief.proven_end < max(self.position, 0)

    @invariant()
    def only_what_passed_is_believed(self) -> None:
        """The end, if its check is done; before it, what was believed when the owner looked again."""
        assert (self.belief.check is TailCheck.DONE) == self.is_believed
        assert self.belief.believed_end == self.compared_to
        assert (self.belief.proven_end == NO_END) == (not self.is_disproved)


TestOwner = Owner.TestCase


def test_milestone_of_other_topics_is_not_recalled() -> None:
    """The topic was created again: what its name once held proves nothing."""
    belief, mark = Belief(), LaneMark(*LANE.key, 5, 7)
    other = Lane(
        source_topic=LANE.source_topic,
        source_topic_id=uuid.uuid4(),
        target_topic=LANE.target_topic,
        target_topic_id=LANE.target_topic_id,
        partition=3,
    )
    belief.recall(milestone_of(other, mark), LANE)
    assert (belief.left, belief.milestone) == (None, None)
