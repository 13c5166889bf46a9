"""Transactional producers that continue at another cluster: the state that their coordinator had where they were. Pure.

A client whose connection broke repeats its commit at the cluster where it is by then. That cluster does not know the
transaction and answers that it can only be aborted: the client would repeat the whole transaction. So the client
receives the decision of the previous cluster, unless the transactional id has begun a transaction here since.

Other requests of a transaction that the previous cluster has aborted must not reach the leaders here: they may not ask
a coordinator, and would keep a transaction open that no producer ends. So this cluster's coordinator is asked first by
which producer id it knows the transactional id: only that producer writes here.

A client that has to abort asks for its next epoch under the id that it had. A cluster that has known its transactional
id before knows it by another producer id, and would fence the client for good. So the request carries the id and epoch
by which the cluster knew it when clients came: a producer that took its place there since has another epoch, and the
cluster fences the older one, as it does without any move.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple

_CONFIRMED_S: Final = 5.0
_NO_ID: Final = -1


class CarriedTransaction(NamedTuple):
    """The state of a transactional id at its coordinator: its producer, at the epoch of its client, and whether the
    last transaction was committed.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_committed: bool = False

    @property
    def producer(self) -> tuple[int, int]:
        """The id and epoch of its producer."""
        return self.producer_id, self.producer_epoch


class CarriedFurther(NamedTuple):
    """The last transactions of producers that leave a cluster, by transactional id; those that are `idle` have done
    nothing there.
    """

    known: dict[str, CarriedTransaction]
    idle: frozenset[str]

    def is_stale(self, there: CarriedTransaction, *, is_back: bool) -> bool:
        """Return whether a cluster has to forget its state of a transactional id before the producer comes: clients
        come back to it after a transaction elsewhere; or both clusters gave the same id and epoch.
        """
        known = self.known.get(there.transactional_id)
        if known is None:
            return False
        return there.transactional_id not in self.idle if known.producer == there.producer else is_back


def carried_further(
    before: Iterable[CarriedTransaction], met: Iterable[CarriedTransaction], now: Iterable[CarriedTransaction]
) -> CarriedFurther:
    """Return the last transactions of producers that leave a cluster: its present state (`now`), without those
    unchanged since it `met` them. For the latter take the state that was carried `before`: they have done nothing there
    since.
    """
    known = {each.transactional_id: each for each in before}
    as_met = {each.transactional_id: each for each in met}
    active = {
        each.transactional_id: each
        for each in now
        if each.transactional_id not in known or as_met.get(each.transactional_id) != each
    }
    return CarriedFurther(known | active, frozenset(known.keys() - active.keys()))


class WithinVerdict(enum.Enum):
    """The decision about a request of a transaction."""

    HERE = enum.auto()
    """The request belongs to this cluster, or that is unknown: it passes."""
    DOUBTED = enum.auto()
    """This cluster is asked by which producer it knows the transactional id, and the client has to ask again."""
    COMMITTED = enum.auto()
    """The transaction was committed where the client came from."""
    ELSEWHERE = enum.auto()
    """The transaction does not belong to this cluster, and can only be aborted."""


class _Told(NamedTuple):
    """The producer that a coordinator here reported for a transactional id, and when it was asked; `None` if it does
    not report one.
    """

    producer: tuple[int, int] | None
    at_s: float


class CarriedTransactions:
    """The last transactions of producers at the cluster that clients came from; times are monotonic s. `here` is this
    cluster's state of the same transactional ids when they came. Clients have moved `stay` times: if never, there is
    nothing to check.
    """

    def __init__(
        self, carried: Iterable[CarriedTransaction] = (), here: Iterable[CarriedTransaction] = (), *, stay: int = 0
    ) -> None:
        self._here = {each.transactional_id: each.producer for each in here}
        self._carried = {each.transactional_id: each for each in carried}
        # An id that did nothing at the other cluster still belongs here.
        self._away = {name for name, each in self._carried.items() if self._here.get(name) != each.producer}
        self._told = dict[str, _Told]()
        self._since = dict[tuple[str, int], float]()
        self._stay = stay
        self.doubted = set[str]()
        """Transactional ids of which this cluster is to be asked by which producer it knows them (`learn`)."""

    def __bool__(self) -> bool:
        return self._stay > 0

    def judge(self, transactional_id: str, producer_id: int, now: float) -> WithinVerdict:
        """Judge a write of a producer, or a request to its coordinator."""
        answer, doubt = self._told.get(transactional_id), (transactional_id, producer_id)
        if answer is not None and (answer.producer is None or self._is_owner(transactional_id, answer, producer_id)):
            self._since.pop(doubt, None)
            return WithinVerdict.HERE
        # It may have begun here through another gateway, after the coordinator's last answer.
        since = self._since.setdefault(doubt, now)
        if answer is None or answer.at_s < since or now - answer.at_s > _CONFIRMED_S:
            self.doubted.add(transactional_id)
            return WithinVerdict.DOUBTED
        return WithinVerdict.ELSEWHERE

    def _is_owner(self, transactional_id: str, answer: _Told, producer_id: int) -> bool:
        is_named = answer.producer is not None and answer.producer[0] == producer_id
        return is_named and transactional_id not in self._away

    def judge_commit(self, asked: CarriedTransaction, now: float) -> WithinVerdict:
        """Judge a commit; `asked` is the state that a coordinator has once it has decided the commit."""
        found = self.judge(asked.transactional_id, asked.producer_id, now)
        return WithinVerdict.COMMITTED if found is WithinVerdict.ELSEWHERE and self.has_committed(asked) else found

    def has_committed(self, asked: CarriedTransaction) -> bool:
        """Whether the cluster that clients came from has decided this commit, and its transactional id is not known to
        have begun a transaction here since.
        """
        return asked.transactional_id in self._away and self._carried[asked.transactional_id] == asked

    def learn(self, transactional_id: str, producer: tuple[int, int] | None, now: float) -> None:
        """Record that the coordinator of this cluster, asked at `now`, knows the transactional id by this producer: -1
        if it does not know it, `None` if it does not report it. A producer other than the one when clients came has
        begun here since.
        """
        self.doubted.discard(transactional_id)
        before = self._told.get(transactional_id)
        if before is not None and before.at_s > now:
            return
        self._told[transactional_id] = _Told(producer, now)
        if producer is not None and producer[0] != _NO_ID and producer != self._here.get(transactional_id):
            self._away.discard(transactional_id)

    def known_here(self, transactional_id: str, producer_id: int, producer_epoch: int) -> tuple[int, int] | None:
        """Return the producer id and epoch by which this cluster knew the transactional id when its newest producer
        came; `None` if this is another producer, or the cluster knew none: then it accepts the first one.
        """
        carried = self._carried.get(transactional_id)
        is_newest = carried is not None and carried.producer == (producer_id, producer_epoch)
        return self._here.get(transactional_id) if is_newest else None
