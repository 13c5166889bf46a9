"""Producers that continue at another cluster: compare their first batches there with their last batches before. Pure.

A cluster that does not know a producer accepts any first batch: one that was acknowledged before (a duplicate), or one
that follows a lost batch (a gap). So the last batch of the producer at the previous cluster is compared here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.model.gateways.producerids import same_producer, settled_producer_id

_Key = tuple[str, int]
_SEQUENCES: Final = 1 << 31
_CONFIRMED_S: Final = 5.0


class CarriedProducer(NamedTuple):
    """The last state of a producer in a partition that a leader knew: the sequence of its last record, under this
    epoch.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int

    @property
    def key(self) -> _Key:
        return self.topic, self.partition


class SentBatch(NamedTuple):
    """A batch that a producer sends: `records` of them, the first with the sequence `base_sequence`. Without
    idempotence its id is -1.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def key(self) -> _Key:
        return self.topic, self.partition

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.records - 1) % _SEQUENCES


class CarriedVerdict(enum.Enum):
    """The decision about a batch of a carried producer."""

    NEW = enum.auto()
    """The new cluster does not know the producer, or nothing contradicts the batch: it passes."""
    NEXT = enum.auto()
    """The batch follows the last one: it passes, and once it is answered the new cluster knows the producer itself."""
    DUPLICATE = enum.auto()
    """The batch is in the log already."""
    EARLY = enum.auto()
    """Earlier batches may still be on their way: the client has to send it again."""
    DOUBTED = enum.auto()
    """It is not the next batch, or the new cluster knows the producer by now: that cluster is asked, and the client has
    to send the batch again.
    """
    GAP = enum.auto()
    """An earlier batch is missing."""
    FENCED = enum.auto()
    """A later producer had the id."""


@dataclass(slots=True)
class _Known:
    epoch: int
    last: int
    asking: object = None
    confirmed_s: float | None = None


class CarriedProducers:
    """The carried producers that have not been seen to continue yet. Clients have moved `stay` times by now; times are
    monotonic s.
    """

    def __init__(self, carried: Iterable[CarriedProducer] = (), *, stay: int = 0) -> None:
        self._stay = stay
        self._known: dict[_Key, dict[int, _Known]] = {}
        for each in carried:
            if each.last_sequence >= 0:
                found = self._known.setdefault(each.key, {})
                found[same_producer(each.producer_id)] = _Known(each.producer_epoch, each.last_sequence)
        self.doubted = set[_Key]()
        """Partitions of which the new cluster is to be asked what it knows (`learn`)."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    @property
    def partitions(self) -> frozenset[_Key]:
        """The partitions with carried producers."""
        return frozenset(self._known)

    def judge(self, batches: Iterable[SentBatch], owner: object, now: float) -> Mapping[_Key, CarriedVerdict]:
        """Judge a request; each partition is in it once. If all verdicts are `NEW` or `NEXT`, the request is to be
        forwarded, and its answer belongs to `owner`.
        """
        batches = list(batches)
        verdicts = {each.key: self._verdict(each, now) for each in batches}
        if all(each in (CarriedVerdict.NEW, CarriedVerdict.NEXT) for each in verdicts.values()):
            for batch in batches:
                if verdicts[batch.key] is CarriedVerdict.NEXT:
                    self._known[batch.key][same_producer(batch.producer_id)].asking = owner
        self.doubted |= {key for key, verdict in verdicts.items() if verdict is CarriedVerdict.DOUBTED}
        return verdicts

    def _verdict(self, batch: SentBatch, now: float) -> CarriedVerdict:
        known = self._known.get(batch.key, {}).get(same_producer(batch.producer_id))
        if known is None or not batch.records:
            return CarriedVerdict.NEW
        if batch.producer_epoch < known.epoch:
            return CarriedVerdict.FENCED
        # A producer with a newer epoch starts at sequence 0.
        is_anew = batch.producer_epoch > known.epoch
        is_next = batch.base_sequence == (0 if is_anew else (known.last + 1) % _SEQUENCES)
        if not (is_next or is_anew) and _distance(batch.last_sequence, known.last) <= 0:
            return CarriedVerdict.DUPLICATE
        if known.asking is not None:
            return CarriedVerdict.EARLY
        if is_next:
            return CarriedVerdict.NEXT
        if known.confirmed_s is not None and now - known.confirmed_s <= _CONFIRMED_S:
            return CarriedVerdict.GAP
        return CarriedVerdict.DOUBTED

    def take_answer(self, owner: object, taken: Iterable[_Key]) -> None:
        """Take the answer to the request of this owner: these partitions have accepted their batches."""
        gone = set(taken)
        for key, found in list(self._known.items()):
            for producer_id, known in list(found.items()):
                if known.asking is owner:
                    known.asking = None
                    if key in gone:
                        self._forget(key, producer_id)

    def learn(self, key: _Key, producers: Mapping[int, int], now: float) -> None:
        """Record the producers that the leader at the new cluster knows in a partition: by id, the sequence of the last
        record. From then on only that leader judges a producer that continues there. It does not know the others.
        """
        self.overtake(key, producers)
        self.doubted.discard(key)
        for known in self._known.get(key, {}).values():
            known.confirmed_s = now

    def overtake(self, key: _Key, producers: Mapping[int, int]) -> None:
        """Forget the producers that continue there by now, as `learn` does: their old sequences become useless. A
        producer that is half of all sequences ahead would seem to be behind.
        """
        # The other producers are of clients that were there before.
        here = {
            same_producer(each)
            for each, last in producers.items()
            if last >= 0 and settled_producer_id(each, self._stay) == each
        }
        for producer_id in list(self._known.get(key, {})):
            if producer_id in here:
                self._forget(key, producer_id)

    def _forget(self, key: _Key, producer_id: int) -> None:
        found = self._known[key]
        found.pop(producer_id, None)
        if not found:
            del self._known[key]


def carried_on(known: Iterable[CarriedProducer], before: Iterable[CarriedProducer], stay: int) -> list[CarriedProducer]:
    """Return the producers to carry from a cluster, where clients were when they had moved `stay` times: those that its
    leaders know of producers that wrote there meanwhile, and those carried there of producers that did not. Older state
    of leaders, from an earlier stay, has been overtaken elsewhere.
    """
    found = {(each.key, same_producer(each.producer_id)): each for each in before}
    for each in known:
        if settled_producer_id(each.producer_id, stay) == each.producer_id:
            found[each.key, same_producer(each.producer_id)] = each
    return list(found.values())


def _distance(sequence: int, other: int) -> int:
    """Return by how much a sequence is beyond another one: 0 follows 2^31 - 1."""
    found = (sequence - other) % _SEQUENCES
    return found if found < _SEQUENCES // 2 else found - _SEQUENCES
