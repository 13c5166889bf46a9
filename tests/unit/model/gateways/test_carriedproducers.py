"""What a producer that goes on at another cluster writes there first, held against what it wrote before."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isthmus.model.gateways.carriedproducers import (
    CarriedProducer,
    CarriedProducers,
    CarriedVerdict,
    SentBatch,
    carried_on,
)
from isthmus.model.gateways.producerids import settled_producer_id, tagged_producer_id

KEY = ("orders", 0)
ME, MAX = 1001, (1 << 31) - 1


def batch(base: int, records: int = 1, *, epoch: int = 3, producer: int = ME, partition: int = 0) -> SentBatch:
    """A batch that the producer sends."""
    return SentBatch("orders", partition, producer, epoch, base, records)


def carried(last: int = 9) -> CarriedProducers:
    """What is known of a producer that wrote up to this sequence."""
    return CarriedProducers([CarriedProducer("orders", 0, ME, 3, last)])


@pytest.mark.parametrize(
    ("last", "sent", "verdict"),
    [
        (9, batch(9), CarriedVerdict.DUPLICATE),
        (9, batch(0, 10), CarriedVerdict.DUPLICATE),
        (9, batch(10, 5), CarriedVerdict.NEXT),
        (9, batch(8, 5), CarriedVerdict.DOUBTED),
        (9, batch(11), CarriedVerdict.DOUBTED),
        (9, batch(0, epoch=4), CarriedVerdict.NEXT),
        (9, batch(5, epoch=4), CarriedVerdict.DOUBTED),
        (9, batch(10, epoch=2), CarriedVerdict.FENCED),
        (9, batch(0, producer=ME + 1), CarriedVerdict.NEW),
        (9, batch(0, producer=-1), CarriedVerdict.NEW),
        (9, batch(0, partition=1), CarriedVerdict.NEW),
        (9, batch(0, 0), CarriedVerdict.NEW),
        (MAX, batch(0, 5), CarriedVerdict.NEXT),
        (MAX, batch(MAX - 1, 2), CarriedVerdict.DUPLICATE),
        (1, batch(MAX, 3), CarriedVerdict.DUPLICATE),
        (1, batch(MAX, 1), CarriedVerdict.DUPLICATE),
        (MAX - 1, batch(MAX, 5), CarriedVerdict.NEXT),
        (-1, batch(7), CarriedVerdict.NEW),
    ],
)
def test_a_first_batch(last: int, sent: SentBatch, verdict: CarriedVerdict) -> None:
    """What a batch is follows from the last one that was written; behind 2^31 - 1 comes 0."""
    assert carried(last).judge([sent], "first", 0.0) == {sent.key: verdict}


def test_what_was_answered_is_forgotten() -> None:
    """While the next batch is on its way all others wait; once it was taken the new cluster knows the producer."""
    known = carried()
    assert known.judge([batch(10)], "first", 0.0)[KEY] is CarriedVerdict.NEXT
    assert known.judge([batch(11)], "second", 0.0)[KEY] is CarriedVerdict.EARLY
    assert known.judge([batch(10)], "second", 0.0)[KEY] is CarriedVerdict.EARLY
    assert known.judge([batch(9)], "second", 0.0)[KEY] is CarriedVerdict.DUPLICATE

    known.take_answer("second", [KEY])
    assert known

    known.take_answer("first", [KEY])
    assert not known
    assert known.judge([batch(11)], "second", 0.0)[KEY] is CarriedVerdict.NEW


def test_a_producer_that_went_on_through_another_gateway_is_never_behind() -> None:
    """When it has written a billion records more it would seem to be: before that the cluster is asked."""
    known = carried()
    far = batch((1 << 30) + 50)
    assert known.judge([far], "first", 0.0)[KEY] is CarriedVerdict.DUPLICATE

    known.overtake(KEY, {ME + 1: 5})
    assert known.partitions == {KEY}
    assert known.judge([batch(11)], "first", 0.0)[KEY] is CarriedVerdict.DOUBTED
    known.overtake(KEY, {ME: (1 << 30) + 49})
    assert not known
    assert known.judge([far], "first", 0.0)[KEY] is CarriedVerdict.NEW


def test_what_was_not_taken_comes_again() -> None:
    """An answer that refused the batch, or a connection that was lost, leaves everything as it was."""
    known = carried()
    known.judge([batch(10)], "first", 0.0)

    known.take_answer("first", [])

    assert known.judge([batch(11)], "first", 0.0)[KEY] is CarriedVerdict.DOUBTED
    assert known.judge([batch(10)], "first", 0.0)[KEY] is CarriedVerdict.NEXT


def test_a_request_goes_on_as_a_whole() -> None:
    """Where a partition of a request is answered by us, the other ones are not on their way."""
    known = CarriedProducers([CarriedProducer("orders", each, ME, 3, 9) for each in range(2)])

    found = known.judge([batch(9), batch(10, partition=1)], "first", 0.0)
    assert found == {KEY: CarriedVerdict.DUPLICATE, ("orders", 1): CarriedVerdict.NEXT}
    assert known.judge([batch(10, partition=1)], "second", 0.0) == {("orders", 1): CarriedVerdict.NEXT}


def test_what_is_doubted_is_asked() -> None:
    """A producer that went on through another gateway is known at the new cluster; if it is not, records are missing.
    What was found holds for a moment only, as the producer may go on through another gateway meanwhile.
    """
    for knows, verdict in ((True, CarriedVerdict.NEW), (False, CarriedVerdict.GAP)):
        known = carried()
        assert known.judge([batch(12)], "first", 0.0)[KEY] is CarriedVerdict.DOUBTED
        assert known.doubted == {KEY}

        known.learn(KEY, {ME: 11} if knows else {ME + 1: 3}, 1.0)

        assert not known.doubted
        assert known.judge([batch(12)], "first", 2.0)[KEY] is verdict
        if not knows:
            assert known.judge([batch(12)], "first", 9.0)[KEY] is CarriedVerdict.DOUBTED


def test_a_producer_that_came_back_is_not_what_it_was_here() -> None:
    """What a cluster remembers of clients that were there before does not say that they have gone on since."""
    before = tagged_producer_id(ME, 7, stay=0)
    known = CarriedProducers([CarriedProducer("orders", 0, before, 3, 9)], stay=2)
    assert known.judge([batch(12, producer=before)], "first", 0.0)[KEY] is CarriedVerdict.DOUBTED
    known.learn(KEY, {before: 4}, 1.0)
    assert known.judge([batch(12, producer=before)], "first", 2.0)[KEY] is CarriedVerdict.GAP

    known.learn(KEY, {before: 4, settled_producer_id(before, 2): 11}, 3.0)

    assert known.judge([batch(12, producer=before)], "first", 4.0)[KEY] is CarriedVerdict.NEW


def test_what_a_leader_remembers_of_an_earlier_stay_is_not_carried() -> None:
    """A producer that wrote nothing here since it came back is known by what was carried here; one that did, by what it
    wrote; and one that was nowhere else by what its leader says.
    """
    own, other, fresh = (tagged_producer_id(each, 7, stay=0) for each in (1, 2, 3))
    before = [CarriedProducer("orders", 0, each, 3, 50) for each in (own, other)]
    known = [CarriedProducer("orders", 0, each, 3, 4) for each in (own, other)]
    here = CarriedProducer("orders", 0, settled_producer_id(other, 2), 3, 60)
    plain = CarriedProducer("orders", 0, ME, 0, 7)

    assert set(carried_on([*known, here, plain], before, 2)) == {before[0], here, plain}
    started = CarriedProducer("orders", 0, fresh, 0, 9)
    assert carried_on([started], [], 0) == [started]


class Leader:
    """A leader of a cluster that the producer is new to: it takes any first batch, and then the next one only."""

    def __init__(self) -> None:
        self.log: list[int] = []

    def append(self, base: int, records: int) -> bool:
        """Whether it has it now."""
        sequences = range(base, base + records)
        if not self.log or base == self.log[-1] + 1:
            self.log += sequences
        return set(sequences) <= set(self.log)


class GoingOn(RuleBasedStateMachine):
    """A producer has batches on their way when it is sent to another cluster, the first of which are in the log already
    though it may not know. Whatever is lost on the way, through whichever of two gateways: each record comes once,
    behind the one before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gateways = [carried(), carried()]
        self.leader = Leader()
        self.first = 0
        self.taken = set[int]()
        self.waiting: list[tuple[CarriedProducers, object, int]] = []
        self.now = 0.0

    @initialize(acknowledged=st.integers(0, 9))
    def begin(self, acknowledged: int) -> None:
        """So many of its ten records are acknowledged."""
        self.first = acknowledged

    @rule(which=st.integers(0, 1))
    def send(self, which: int) -> None:
        """It sends the first batches that it has no acknowledgement of."""
        known = self.gateways[which]
        for base in (each for each in range(self.first, self.first + 5) if each not in self.taken):
            owner = object()
            verdict = known.judge([batch(base)], owner, self.now)[KEY]
            assert verdict is not CarriedVerdict.GAP or base > self.first
            if verdict in (CarriedVerdict.NEW, CarriedVerdict.NEXT) and self.leader.append(base, 1):
                self.waiting.append((known, owner, base))
            elif verdict is CarriedVerdict.DUPLICATE:
                self._take(base)

    @precondition(lambda self: self.waiting)
    @rule()
    def answer(self) -> None:
        """The first answer comes."""
        known, owner, base = self.waiting.pop(0)
        known.take_answer(owner, [KEY])
        self._take(base)

    @rule()
    def lose(self) -> None:
        """All connections are lost."""
        for known, owner, _ in self.waiting:
            known.take_answer(owner, [])
        self.waiting.clear()

    @rule(which=st.integers(0, 1))
    def learn(self, which: int) -> None:
        """A gateway asks what it doubts."""
        if self.gateways[which].doubted:
            self.gateways[which].learn(KEY, {ME: self.leader.log[-1]} if self.leader.log else {}, self.now)

    @rule(seconds=st.floats(0, 10))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @invariant()
    def in_order_and_once(self) -> None:
        """The log goes on behind what was written at the other cluster."""
        assert self.leader.log == list(range(10, 10 + len(self.leader.log)))

    def _take(self, base: int) -> None:
        self.taken.add(base)
        while self.first in self.taken:
            self.first += 1


TestGoingOn = GoingOn.TestCase
