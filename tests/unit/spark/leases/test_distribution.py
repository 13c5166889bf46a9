"""Which lease runs which lane."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.model.lane import Lane, LaneKey
from isthmus.model.link import Limits
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.leases.distribution import Distribution, LeaseGroup
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.leases.spread import IDLE_BUSY, LaneMove

GROUPS = 3


def lane(number: int, *, batch_bytes_max: int = 1000) -> Lane:
    """One of many lanes."""
    return Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=number,
        batch_bytes_max=batch_bytes_max,
    )


def distribution(loads: dict[LaneKey, float] | None = None, groups: int = GROUPS) -> Distribution:
    """Groups without leases."""
    progress = RunProgress()
    progress._loads = loads or {}
    return Distribution([LeaseGroup(link="l", slot=slot, controller=1) for slot in range(groups)], progress)


def partitions(group: LeaseGroup) -> set[int]:
    """What a group runs."""
    return {key.partition for key in group.lanes}


def test_lanes_are_spread_evenly_at_first() -> None:
    """Nothing is known of their loads yet."""
    lanes = distribution()
    lanes.assign(lane(number) for number in range(10))
    assert sorted(len(group.lanes) for group in lanes.groups) == [3, 3, 4]


def test_lanes_stay_where_they_are() -> None:
    """New ones are added around them, and the ledger is to be told of the groups concerned alone."""
    lanes = distribution()
    lanes.assign(lane(number) for number in range(3))
    for group in lanes.groups:
        group.begin()
        group.is_untold = False
    before = [partitions(group) for group in lanes.groups]

    lanes.assign(lane(number) for number in range(4))

    assert [partitions(group) - {3} for group in lanes.groups] == before
    assert sum(group.is_untold for group in lanes.groups) == 1


def test_a_lane_that_was_taken_before_its_lease_was_sent_out_is_free() -> None:
    """The lease never has it, and so would never say that it has let go of it."""
    lanes = distribution(groups=2)
    lanes.assign(lane(number) for number in range(2))
    home = lanes.groups[0]
    home.begin()
    lanes.move([LaneMove(lane(0).key, 0, 1)])
    assert home.parting() == (lane(0).key,)
    lanes.send_out(home)
    assert home.parting() == ()
    assert [partitions(group) for group in lanes.groups] == [set(), {0, 1}]


def test_a_lane_that_its_lease_let_go_of_is_not_settled_by_its_end() -> None:
    """Its writes of before may still be on their way: that lease may have lost the lane before it knew."""
    lanes = distribution(groups=2)
    lanes.assign(lane(number) for number in range(2))
    first = lanes.groups[0]
    for is_clean in (False, True):
        lanes.hand_over(first)
        lanes.send_out(first)
        if is_clean:
            lanes.move([LaneMove(lane(0).key, 0, 1)])
            lanes.let_go(first, first.generation, first.revision)
        lanes.note_end(first, first.generation, is_clean=is_clean)
    second = lanes.groups[1]
    assert second.lanes[lane(0).key].is_unsettled
    lanes.hand_over(second)
    assert second.lanes[lane(0).key].is_unsettled


def test_a_lane_that_comes_back_returns_to_the_lease_that_may_still_write_it() -> None:
    """Another lease could write beside what is still on its way."""
    lanes = distribution()
    lanes.assign(lane(number) for number in range(3))
    for group in lanes.groups:
        group.begin()
    home = next(group for group in lanes.groups if 1 in partitions(group))

    lanes.assign([lane(0), lane(2)])
    lanes.assign([lane(0), lane(2), lane(3), lane(4), lane(1)])

    assert 1 in partitions(home)


def test_a_lane_with_other_properties_is_told_anew() -> None:
    """Such as after its topic was recreated."""
    lanes = distribution(groups=1)
    lanes.assign([lane(0)])
    revision = lanes.groups[0].revision

    lanes.assign([lane(0, batch_bytes_max=5)])

    assert lanes.groups[0].lanes[LaneKey(TargetTopic("orders"), 0)].batch_bytes_max == 5
    assert lanes.groups[0].revision > revision


def test_a_lane_that_ended_for_good_is_not_run_again_by_itself() -> None:
    """Until it is left out once, which is what pausing and resuming does."""
    lanes = distribution(groups=1)
    lanes.assign([lane(0), lane(1)])
    lanes.park([LaneKey(TargetTopic("orders"), 0)])
    lanes.assign([lane(0), lane(1)])
    assert partitions(lanes.groups[0]) == {1}
    lanes.assign([lane(1)])
    lanes.assign([lane(0), lane(1)])
    assert partitions(lanes.groups[0]) == {0, 1}


def placed(*homes: set[int]) -> Distribution:
    """A group for each of these sets of lanes, each with a lease that runs them."""
    lanes = distribution(groups=len(homes))
    for group, numbers in zip(lanes.groups, homes, strict=True):
        for number in numbers:
            group.put(lane(number).key, lane(number))
        group.begin()
        group.busy = 0.9
    lanes.assign(lane(number) for numbers in homes for number in numbers)
    return lanes


def test_a_moving_lane_joins_the_other_lease_when_its_own_has_let_go_of_it() -> None:
    """No lease ends for it, and the others of its lanes go on."""
    lanes = placed({0, 1, 2}, {3})
    first, second = lanes.groups

    lanes.move([LaneMove(lane(0).key, 0, 1), LaneMove(lane(9).key, 0, 1)])

    assert (partitions(first), partitions(second)) == ({1, 2}, {3})
    assert first.document().parting == (lane(0).key,)
    assert lanes.weigh() is None, "while a lane is on its way nothing else is moved"
    lanes.assign(lane(number) for number in range(4))
    assert partitions(second) == {3}
    lanes.let_go(first, 1, first.revision - 1)
    assert partitions(second) == {3}
    lanes.let_go(first, 1, first.revision)
    assert (partitions(first), partitions(second)) == ({1, 2}, {0, 3})
    assert second.lanes[lane(0).key] == lane(0)
    assert (first.document().parting, first.holds(lane(0).key)) == ((), False)
    assert lanes.weigh() is not None


def test_a_moving_lane_settles_elsewhere_when_its_lease_dies() -> None:
    """What is on its way then is known to nobody else."""
    lanes = placed({0, 1}, {2})
    first, second = lanes.groups
    lanes.move([LaneMove(lane(0).key, 0, 1)])

    lanes.note_end(first, 1, is_clean=False)

    assert partitions(second) == {0, 2}
    assert second.lanes[lane(0).key].is_unsettled
    assert not first.is_clean


def test_a_lane_that_goes_while_it_moves_is_forgotten() -> None:
    """It comes back to the lease that may still write it."""
    lanes = placed({0, 1}, {2})
    first, second = lanes.groups
    lanes.move([LaneMove(lane(0).key, 0, 1)])
    lanes.assign([lane(1), lane(2)])
    assert lanes.weigh() is not None
    lanes.assign(lane(number) for number in range(3))
    lanes.let_go(first, 1, first.revision - 1)
    assert (partitions(first), partitions(second)) == ({0, 1}, {2})


def test_the_lanes_of_a_closed_group_go_to_the_others() -> None:
    """Each when the lease is over, or has let go of it; and no new one comes until the group is open again."""
    lanes = placed({0, 1}, {2}, {3})
    first, second, third = lanes.groups
    lanes.close(first)
    assert (partitions(first), partitions(second), partitions(third)) == (set(), {2}, {3})
    assert not first.needs_lease
    lanes.note_end(first, 1, is_clean=True)
    assert (partitions(second), partitions(third)) == ({0, 2}, {1, 3})
    lanes.assign(lane(number) for number in range(6))
    assert partitions(first) == set()
    lanes.reopen(first)
    lanes.assign(lane(number) for number in range(8))
    assert partitions(first) == {6, 7}


def test_lanes_wait_while_all_groups_are_closed() -> None:
    """There is no slot for them."""
    lanes = placed({0})
    (only,) = lanes.groups
    lanes.close(only)
    lanes.note_end(only, 1, is_clean=True)
    assert partitions(only) == set()
    lanes.reopen(only)
    assert partitions(only) == {0}


def test_the_weights_of_lanes_are_shares_of_their_workers_time() -> None:
    """By what each copied; nothing is known while a worker has told nothing, and of closed groups."""
    lanes = placed({0, 1}, set(), {2})
    lanes._progress._loads = {lane(0).key: 299.0, lane(1).key: 99.0, lane(2).key: 0.0}
    lanes.groups[2].busy = 0.1
    assert lanes.weigh() == {
        0: {lane(0).key: pytest.approx(0.675), lane(1).key: pytest.approx(0.225)},
        1: {},
        2: {lane(2).key: 0.1},
    }
    lanes.groups[2].busy = 0.0
    weighed = lanes.weigh()
    assert weighed is not None
    assert weighed[2] == {lane(2).key: IDLE_BUSY}
    lanes.groups[2].busy = None
    assert lanes.weigh() is None
    lanes.close(lanes.groups[2])
    lanes.note_end(lanes.groups[2], 1, is_clean=True)
    weighed = lanes.weigh()
    assert weighed is not None
    assert weighed.keys() == {0, 1}


def test_a_lane_that_was_away_when_its_lease_died() -> None:
    """Wherever it comes back, its next lease settles; until one that began with it has left nothing on its way."""
    lanes = distribution({LaneKey(TargetTopic("orders"), 1): 1e6}, groups=2)
    lanes.assign([lane(0)])
    first = lanes.groups[0]
    first.begin()
    lanes.assign([lane(1)])
    lanes.note_end(first, 1, is_clean=False)
    lanes.assign([lane(0), lane(1)])
    home = next(group for group in lanes.groups if 0 in partitions(group))
    assert home.lanes[LaneKey(TargetTopic("orders"), 0)] == replace(lane(0), is_unsettled=True)
    # Saying the same again changes nothing.
    home.is_untold = False
    lanes.assign([lane(0), lane(1)])
    assert not home.is_untold
    lanes.hand_over(home)
    lanes.note_end(home, home.generation, is_clean=None)
    lanes.hand_over(home)
    assert home.lanes[LaneKey(TargetTopic("orders"), 0)].is_unsettled
    lanes.note_end(home, home.generation, is_clean=True)
    lanes.hand_over(home)
    assert home.lanes[LaneKey(TargetTopic("orders"), 0)] == lane(0)


def test_every_lease_that_is_not_over_holds_what_it_was_told() -> None:
    """Also the one before the present one, and lanes that came to the group while it ran."""
    group = LeaseGroup(link="l", slot=0, controller=1)
    group.put(LaneKey(TargetTopic("orders"), 0), lane(0))
    assert (group.begin(), group.begin()) == (1, 2)
    group.put(LaneKey(TargetTopic("orders"), 1), lane(1))
    group.put(LaneKey(TargetTopic("orders"), 0), None)
    for generation in (1, 2):
        assert group.held[generation] == {LaneKey(TargetTopic("orders"), 0), LaneKey(TargetTopic("orders"), 1)}
    group.held.pop(2)
    assert group.holds(LaneKey(TargetTopic("orders"), 0))
    assert not group.holds(LaneKey(TargetTopic("orders"), 2))


def test_leases_are_over_in_their_order() -> None:
    """As long as one may be running, none that came behind it counts as over."""
    group = LeaseGroup(link="l", slot=0, controller=1)
    assert group.ended_through == 0
    for _ in range(3):
        group.begin()
    assert group.ended_through == 0
    group.held.pop(2)
    assert group.ended_through == 0
    group.held.pop(1)
    assert group.ended_through == 2
    group.held.pop(3)
    assert group.ended_through == 3


def test_a_document_says_what_a_slot_shall_run() -> None:
    """Each change has a number of its own."""
    group = LeaseGroup(link="l", slot=2, controller=7, is_clean=False)
    group.put(LaneKey(TargetTopic("orders"), 0), lane(0))
    group.begin()
    group.begin()
    group.revoked_through = 1
    limits = Limits(bytes_per_s=77)
    document = group.document(limits)
    assert document.limits == limits
    assert (document.link, document.slot, document.controller, document.generation) == ("l", 2, 7, 2)
    assert (document.revision, document.revoked_through, document.ended_through) == (3, 1, 0)
    assert (document.is_clean, document.lanes) == (False, (lane(0),))
    group.held.pop(1)
    assert group.document().ended_through == 1


def test_what_was_taken_from_a_slot_is_parting_until_every_lease_let_go_of_it() -> None:
    """By its word on what it had lost by then, or by its end; then the ledger is told without another revision."""
    lanes = distribution(groups=1)
    (group,), (first, second) = lanes.groups, (lane(0), lane(1))
    lanes.assign([first, second])
    group.begin()
    group.begin()
    lanes.assign([second])
    assert (group.document().lanes, group.document().parting) == ((second,), (first.key,))
    taken = group.revision
    group.retell()
    lanes.let_go(group, 1, taken - 1)
    lanes.let_go(group, 2, taken)
    assert group.document().parting == (first.key,), "the lease before may write it"
    group.is_untold = False
    lanes.changed.clear()
    lanes.let_go(group, 1, taken)
    assert (group.document().parting, group.revision) == ((), taken + 1)
    assert group.is_untold
    assert lanes.changed.is_set()
    # What is no news, or no lease's, changes nothing and is not told.
    group.is_untold = False
    for generation, revision in ((1, taken), (1, taken - 1), (9, taken)):
        lanes.let_go(group, generation, revision)
        assert group.document().parting == ()
        assert not group.is_untold
    # What comes back and goes again is to be let go of again.
    lanes.assign([first, second])
    assert group.document().parting == ()
    lanes.assign([second])
    assert group.document().parting == (first.key,)
    lanes.let_go(group, 2, group.revision)
    assert group.document().parting == (first.key,)
    lanes.note_end(group, 1, is_clean=True)
    assert group.document().parting == ()
    lanes.note_end(group, 2, is_clean=True)
    assert (group.document().parting, group.taken, group.let_go) == ((), {}, {})


def test_the_end_of_a_lease_is_told_where_the_next_one_waits_for_it() -> None:
    """The ledger says of lanes that it may be writing them; of one that had none of these there is nothing to say."""
    lanes = distribution(groups=1)
    (group,) = lanes.groups
    lanes.assign([lane(0), lane(1)])
    for _ in range(3):
        group.begin()
    group.is_untold = False
    lanes.note_end(group, 1, is_clean=True)
    assert not group.is_untold
    lanes.assign([lane(1)])
    group.is_untold = False
    lanes.note_end(group, 2, is_clean=True)
    assert group.is_untold


def test_what_came_back_and_moves_is_its_leases_till_the_end() -> None:
    """That it was let go of before says nothing of what came later."""
    lanes = distribution(groups=1)
    (group,) = lanes.groups
    lanes.assign([lane(0)])
    group.begin()
    lanes.assign([])
    lanes.let_go(group, 1, group.revision)
    lanes.assign([lane(0)])
    del group.lanes[lane(0).key]
    assert group.document().parting == (lane(0).key,)


def test_changes_are_told() -> None:
    """Whoever waits for something to run, or to tell, is woken."""
    lanes = distribution(groups=2)
    first, second = lanes.groups
    lanes.assign([lane(0)])
    assert lanes.changed.is_set()
    assert first.stirred.is_set()
    assert first.is_untold
    assert not second.is_untold
    first.stirred.clear()
    lanes.changed.clear()
    first.begin()
    lanes.note_end(first, 1, is_clean=True)
    assert first.stirred.is_set()
    assert not lanes.changed.is_set()


def test_the_end_of_a_lease_counts_once() -> None:
    """One that is not known, or was over already, changes nothing; one that never wrote left nothing on its way."""
    lanes = distribution(groups=1)
    (group,) = lanes.groups
    group.begin()
    lanes.note_end(group, 5, is_clean=False)
    assert (group.is_clean, set(group.held)) == (True, {1})
    lanes.note_end(group, 1, is_clean=False)
    lanes.note_end(group, 1, is_clean=True)
    assert not group.is_clean
    group.begin()
    lanes.note_end(group, 2, is_clean=None)
    assert not group.is_clean
    group.begin()
    lanes.note_end(group, 3, is_clean=True)
    assert group.is_clean


def test_heavy_lanes_are_kept_apart_from_the_first_on() -> None:
    """A lane goes where least is moved, not where the fewest lanes are."""
    lanes = distribution({LaneKey(TargetTopic("orders"), 0): 1e6}, groups=2)
    lanes.assign(lane(number) for number in range(4))
    assert partitions(lanes.groups[0]) == {0}
    assert partitions(lanes.groups[1]) == {1, 2, 3}


class OneWriter(RuleBasedStateMachine):
    """Lanes come, go, get heavy and end while leases begin, follow each other and die, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: dict[LaneKey, float] = {}
        self.lanes = distribution(self.loads)
        self.wanted: set[int] = set()
        self.writing: dict[tuple[int, int], set[LaneKey]] = {}
        self.settling: dict[tuple[int, int], bool] = {}
        self.dirty: set[LaneKey] = set()

    @rule(numbers=st.sets(st.integers(0, 11)))
    def assign(self, numbers: set[int]) -> None:
        """The controller wants other lanes."""
        self.wanted = numbers
        self.lanes.assign(lane(number) for number in sorted(numbers))

    @rule(number=st.integers(0, 11), load=st.floats(0, 1e6))
    def measure(self, number: int, load: float) -> None:
        """A lane turns out to be heavy or light."""
        self.loads[LaneKey(TargetTopic("orders"), number)] = load

    @rule(slot=st.integers(0, GROUPS - 1))
    def hand_over(self, slot: int) -> None:
        """A lease begins, alone or beside its predecessor."""
        group = self.lanes.groups[slot]
        if len(group.held) < 2:
            self.lanes.hand_over(group)
            self.writing[slot, group.generation] = set()
            self._admit(group)

    def _admit(self, group: LeaseGroup) -> None:
        """The oldest lease of a group may write, and knows whether the one before it left something on its way."""
        if group.held:
            self.settling.setdefault((group.slot, min(group.held)), not group.is_clean)

    @precondition(lambda self: any(group.held for group in self.lanes.groups))
    @rule(slot=st.integers(0, GROUPS - 1), newest=st.booleans(), is_clean=st.sampled_from([True, False, None]))
    def end(self, slot: int, newest: bool, is_clean: bool | None) -> None:
        """A lease ends or dies, mostly the older one."""
        group = self.lanes.groups[slot]
        if group.held:
            oldest = min(group.held)
            generation = max(group.held) if newest else oldest
            if generation != oldest:
                # It never wrote.
                is_clean = None
            begun = group.begun[generation]
            # Whatever it was told to run it writes no more.
            told = self.writing.pop((slot, generation))
            if is_clean is False:
                self.dirty |= told
            elif is_clean:
                self.dirty -= begun
            self.lanes.note_end(group, generation, is_clean=is_clean)
            self._admit(group)

    @rule(number=st.integers(0, 11), goal=st.integers(0, GROUPS - 1))
    def move(self, number: int, goal: int) -> None:
        """A lane is to move to another slot."""
        key = lane(number).key
        homes = [group.slot for group in self.lanes.groups if key in group.lanes]
        self.lanes.move(LaneMove(key, slot, goal) for slot in homes)

    @rule(slot=st.integers(0, GROUPS - 1), is_closed=st.booleans())
    def close(self, slot: int, is_closed: bool) -> None:
        """An executor goes or comes."""
        group = self.lanes.groups[slot]
        if is_closed:
            self.lanes.close(group)
        else:
            self.lanes.reopen(group)

    @precondition(lambda self: any(group.held for group in self.lanes.groups))
    @rule(slot=st.integers(0, GROUPS - 1), newest=st.booleans(), back=st.integers(0, 2))
    def let_go(self, slot: int, newest: bool, back: int) -> None:
        """A lease says that it does not write any more what it had lost by some revision. It has settled that."""
        group = self.lanes.groups[slot]
        if group.held:
            generation = max(group.held) if newest else min(group.held)
            revision = group.revision - back
            gone = {key for key, taken in group.taken.items() if taken <= revision}
            writing = self.writing[slot, generation]
            if generation == min(group.held) and not self.settling[slot, generation]:
                self.dirty -= gone & writing
            writing -= gone
            self.lanes.let_go(group, generation, revision)

    @rule(number=st.integers(0, 11))
    def park(self, number: int) -> None:
        """A lane ends for good."""
        self.lanes.park([LaneKey(TargetTopic("orders"), number)])

    @invariant()
    def no_two_groups_hold_a_lane(self) -> None:
        """One writer per lane, always: of all that leases were ever told to run, until each is over."""
        holders: dict[LaneKey, int] = {}
        for (slot, generation), keys in self.writing.items():
            group = self.lanes.groups[slot]
            keys.update(group.lanes)
            assert keys <= group.held[generation]
            assert group.ended_through < generation
            for key in keys:
                assert group.holds(key)
                assert holders.setdefault(key, slot) == slot
        for group in self.lanes.groups:
            for key in {key for held in group.held.values() for key in held} | set(group.lanes):
                assert holders.setdefault(key, group.slot) == group.slot

    @invariant()
    def what_was_left_on_its_way_is_settled(self) -> None:
        """Whoever may write a lane next settles if a lease before left a request of it on its way."""
        for group in self.lanes.groups:
            settles = self.settling[group.slot, min(group.held)] if group.held else not group.is_clean
            for key, wanted in group.lanes.items():
                assert key not in self.dirty or settles or wanted.is_unsettled

    @invariant()
    def nothing_unwanted_runs(self) -> None:
        """Lanes are where they were asked for, or nowhere."""
        for group in self.lanes.groups:
            assert partitions(group) <= self.wanted

    def teardown(self) -> None:
        """Once every lease is over each lane that has not ended for good has a home."""
        for group in self.lanes.groups:
            for generation in sorted(group.held):
                self.lanes.note_end(group, generation, is_clean=True)
            self.lanes.reopen(group)
        self.lanes.assign([])
        self.lanes.assign(lane(number) for number in sorted(self.wanted))
        assert set().union(*(partitions(group) for group in self.lanes.groups)) == self.wanted


TestOneWriter = OneWriter.TestCase
TestOneWriter.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True)


def test_what_has_ended_for_good_adds_up() -> None:
    """A second lane that ends does not bring the first one back."""
    lanes = distribution(groups=1)
    lanes.assign(lane(number) for number in range(3))
    for number in range(2):
        lanes.park([LaneKey(TargetTopic("orders"), number)])
    assert partitions(lanes.groups[0]) == {2}
