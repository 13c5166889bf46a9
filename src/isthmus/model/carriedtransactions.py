"""Transactional producers that go on at another cluster: what their coordinator knew of them where they were. Pure.

A client whose connection broke asks for its commit again, at the cluster where it is by then. That one does not know
the transaction and says that it can only be aborted: the client would do all of it once more. So it is told what the
other cluster has decided, unless the transactional id has begun anew here.

What else belongs to a transaction of the other cluster, which has aborted it, is not for the leaders here: they may not
ask a coordinator, and would have open for ever what nobody ends. So this cluster's coordinator is asked first by which
producer id it knows the transactional id: only that one writes here.

A client that is told to abort asks for its next epoch under the id that it had. A cluster where its transactional id
has been before knows it by another one, and fences the client for good. So it asks under the id and epoch by which the
cluster knew it as clients came: whoever took its place there since has another epoch, and the cluster fences the one
that stood still meanwhile, as it does where nobody moves.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple

_CONFIRMED_S: Final = 5.0
_NO_ID: Final = -1


class CarriedTransaction(NamedTuple):
    """What a coordinator knew of a transactional id: its producer, at the epoch that its client has, and whether the
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
        """Whether what a cluster knows of a transactional id is to be known there no more before its producer comes:
        clients come back to it, and that one has been elsewhere since; or both gave it the same id and epoch.
        """
        known = self.known.get(there.transactional_id)
        if known is None:
            return False
        return there.transactional_id not in self.idle if known.producer == there.producer else is_back


def carried_further(
    before: Iterable[CarriedTransaction], met: Iterable[CarriedTransaction], now: Iterable[CarriedTransaction]
) -> CarriedFurther:
    """The last transactions of producers that leave a cluster: what it knows `now`, but for those that it knows as it
    `met` them. Of these it counts what was carried `before`: they have done nothing there since.
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
    """What becomes of a request of a transaction."""

    HERE = enum.auto()
    """It is one of this cluster, or nobody can tell: it passes."""
    DOUBTED = enum.auto()
    """This cluster is asked by which producer it knows the transactional id, and the client is to ask again."""
    COMMITTED = enum.auto()
    """It was committed where the client came from."""
    ELSEWHERE = enum.auto()
    """It is none of this cluster, and can only be aborted."""


class _Told(NamedTuple):
    """Which producer a coordinator here has said to have a transactional id, and when it was asked; `None` if it does
    not tell.
    """

    producer: tuple[int, int] | None
    at_s: float


class CarriedTransactions:
    """The last transactions of producers where clients came from; times are monotonic s. What this cluster knew of
    the same transactional ids as they came is `here`. Clients have moved `stay` times: if never, there is nothing to
    look at.
    """

    def __init__(
        self, carried: Iterable[CarriedTransaction] = (), here: Iterable[CarriedTransaction] = (), *, stay: int = 0
    ) -> None:
        self._here = {each.transactional_id: each.producer for each in here}
        self._carried = {each.transactional_id: each for each in carried}
        # Who did nothing where it was is at home here still.
        self._away = {name for name, each in self._carried.items() if self._here.get(name) != each.producer}
        self._told = dict[str, _Told]()
        self._since = dict[tuple[str, int], float]()
        self._stay = stay
        self.doubted = set[str]()
        """Transactional ids of which this cluster is to be asked by which producer it knows them (`learn`)."""

    def __bool__(self) -> bool:
        return self._stay > 0

    def judge(self, transactional_id: str, producer_id: int, now: float) -> WithinVerdict:
        """What becomes of what a producer writes, or has its coordinator do."""
        told, doubt = self._told.get(transactional_id), (transactional_id, producer_id)
        if told is not None and (told.producer is None or self._is_owner(transactional_id, told, producer_id)):
            self._since.pop(doubt, None)
            return WithinVerdict.HERE
        # It may have begun here through another gateway, behind what was told before it was met.
        since = self._since.setdefault(doubt, now)
        if told is None or told.at_s < since or now - told.at_s > _CONFIRMED_S:
            self.doubted.add(transactional_id)
            return WithinVerdict.DOUBTED
        return WithinVerdict.ELSEWHERE

    def _is_owner(self, transactional_id: str, told: _Told, producer_id: int) -> bool:
        is_named = told.producer is not None and told.producer[0] == producer_id
        return is_named and transactional_id not in self._away

    def judge_commit(self, asked: CarriedTransaction, now: float) -> WithinVerdict:
        """What becomes of a commit, `asked` being what a coordinator knows once it has decided it."""
        found = self.judge(asked.transactional_id, asked.producer_id, now)
        return WithinVerdict.COMMITTED if found is WithinVerdict.ELSEWHERE and self.has_committed(asked) else found

    def has_committed(self, asked: CarriedTransaction) -> bool:
        """Whether the cluster that clients came from has decided this commit, and its transactional id is not known to
        have begun anew here.
        """
        return asked.transactional_id in self._away and self._carried[asked.transactional_id] == asked

    def learn(self, transactional_id: str, producer: tuple[int, int] | None, now: float) -> None:
        """The coordinator of this cluster, asked then, knows the transactional id by this producer, -1 where it does
        not know it; `None` if it does not tell. By another one than as clients came it has begun anew here.
        """
        self.doubted.discard(transactional_id)
        before = self._told.get(transactional_id)
        if before is not None and before.at_s > now:
            return
        self._told[transactional_id] = _Told(producer, now)
        if producer is not None and producer[0] != _NO_ID and producer != self._here.get(transactional_id):
            self._away.discard(transactional_id)

    def known_here(self, transactional_id: str, producer_id: int, producer_epoch: int) -> tuple[int, int] | None:
        """By which producer id and epoch this cluster knew the transactional id as its newest producer came from where
        clients came from; `None` if this is another one, or the cluster knew none: it takes any then, of the first.
        """
        carried = self._carried.get(transactional_id)
        is_newest = carried is not None and carried.producer == (producer_id, producer_epoch)
        return self._here.get(transactional_id) if is_newest else None
