"""Synchronous links (KIP-986): how a gateway treats answers at a moment, and the state of a link as all gateways report
it.

Every gateway decides for itself, and records its decision before it acts on it. Nothing coordinates them: the state of
the link follows from the records of all of them (`synchrony`), so that any number of them works.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, NamedTuple

from isthmus.model.naming import SourceTopic, SourceTopicPartition
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import PlainValue, TextOrNull, instant_or_null
from isthmus.model.text.wording import first_few, format_count

Mode = Literal["async", "sync"]
SYNC: Final = "sync"
LAG_MAX_MS: Final = 10_000
HEARD_S: Final = 10.0
"""A gateway without a report for longer counts as silent. It has fenced itself by then (`FENCE_S`)."""
FENCE_S: Final = 5.0
"""A gateway that has not heard the ledger for so long, or was not heard there, sends no answer that was not held."""
LOOK_S: Final = 1.0
"""The interval at which a gateway reads the ledgers, and reports that it is alive."""
HIDDEN: Final = "its topics are not to be read at the target yet"
STRANGER: Final = (
    "a gateway that is not heard has not confirmed that it knows of the link: unless it has ended it answers as "
    "before (`isthmus gateway forget` declares that it has)"
)
NO_GATEWAY: Final = "no gateway is heard: nothing is held"
ONE_FOLLOWER: Final = "acknowledgements of a topic wait for one follower"
FAILED_OVER: Final = "it was failed over: nothing more of it is answered that the follower lacks"


class OutOfSync(enum.StrEnum):
    """The treatment of writers while the follower lags: they go on, or they are refused until an operator decides."""

    AVAILABLE = "available"
    CONSISTENT = "consistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """The settings of a synchronous link. An acknowledgement that has waited for `lag_max_ms` while the follower
    received nothing of its partition ends the synchrony for now. With `raise_acks` writes with acks=1 wait as well.
    """

    lag_max_ms: int = LAG_MAX_MS
    out_of_sync: OutOfSync = OutOfSync.AVAILABLE
    raise_acks: bool = False


class SyncState(enum.StrEnum):
    """The state of a synchronous link, by the report of one gateway or of all of them."""

    SYNCING = "SYNCING"
    """Not everything that was ever acknowledged is known to be at the follower yet."""
    IN_SYNC = "IN_SYNC"
    """All acknowledged records are at the follower."""
    OUT_OF_SYNC = "OUT_OF_SYNC"
    """Some answered records may be missing at the follower, or writers are refused."""


class Duty(enum.Enum):
    """How to treat a write into a topic of a synchronous link."""

    PASS = enum.auto()
    """It passes without any promise: the link has never been in sync, or is asynchronous again."""
    HOLD = enum.auto()
    """Its answer waits until the follower has the records."""
    LET_GO = enum.auto()
    """Its answer waits only until it is recorded that the follower may lack the records."""
    REFUSE = enum.auto()
    """It is not forwarded."""


class FirstUnheld(NamedTuple):
    """The first offset of a source's partition that was answered without waiting for the follower.

    Or may have been, while the follower lacked the record.
    """

    topic: SourceTopic
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncWord:
    """The statement of a gateway about a link: its state, the reason, and the first answers that it did not hold, by
    topic and partition.
    """

    state: SyncState = SyncState.SYNCING
    reason: str = ""
    lets_go: tuple[FirstUnheld, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvidence:
    """The observations of a gateway on a link: the obstacle for its lanes, "" for none, and whether they follow: then
    the follower also has the messages that it lacked when it stood still (`SyncPart.lacked`).
    """

    trouble: str = ""
    is_following: bool = False


class SyncPart:
    """The part of one gateway in one synchronous link, without a clock or a socket.

    `word` is its statement in the ledger as far as known, `None` for none, and `due` the one to write next. It `owes`
    as soon as it was in sync, or was begun at a link that had been: from then on each answered record is at the
    follower, or the ledger has that it may be missing there. `round` changes whenever a formerly acknowledged record
    may be missing. `lacked` are the records that the follower failed to receive in time: the first offset of each topic
    and partition of the source. As long as it lacks them it would only stand still again. While it is `crossed` by
    another link its topics are held for that one, and this one promises nothing, for the reason in this field. From
    then on, until all are proven, it `is_open` which answered records the follower lacks.
    """

    def __init__(self, settings: SyncSettings, *, owes: bool) -> None:
        self.settings = settings
        self.word: SyncWord | None = None
        self.due: SyncWord | None = SyncWord()
        self.round = 0
        self.lacked: dict[SourceTopicPartition, int] = {}
        self.is_holding = owes
        self._owes = owes
        self.is_open = False
        self.crossed = ""
        self.is_over = False

    @property
    def state(self) -> SyncState:
        """The state to report at this moment: a statement that is still to be written counts already, if it gives up
        more.
        """
        if self._is_out:
            return SyncState.OUT_OF_SYNC
        return SyncState.SYNCING if self.word is None else self.word.state

    @property
    def _is_out(self) -> bool:
        newest = self.due or self.word
        written = None if self.word is None else self.word.state
        return newest is not None and SyncState.OUT_OF_SYNC in (newest.state, written)

    @property
    def _is_consistent(self) -> bool:
        return self.settings.out_of_sync is OutOfSync.CONSISTENT

    def duty(self, *, is_transactional: bool) -> Duty:
        """Return how to treat a write at this moment, if the gateway is not fenced."""
        if self.is_over:
            return Duty.PASS
        if self.crossed:
            return Duty.PASS if self.has_yielded else Duty.HOLD
        if self._is_out and is_transactional:
            return Duty.REFUSE
        if self.is_holding:
            return Duty.HOLD
        if not self._is_out:
            return Duty.PASS
        return Duty.REFUSE if self._is_consistent else Duty.LET_GO

    def end(self) -> None:
        """Take the link as asynchronous from now on: an operator chose that, and all held answers may leave."""
        self.is_over = True

    @property
    def has_yielded(self) -> bool:
        """Whether the ledger says that another link holds answers for its topics."""
        return bool(self.crossed) and self.word == SyncWord(reason=self.crossed)

    def cross(self, reason: str) -> None:
        """Record that another link holds the answers for its topics, for this reason, or that none does any more (""):
        answers meanwhile were not counted, so that the follower has to prove everything again.
        """
        if reason == self.crossed:
            return
        self.crossed, self.is_open = reason, True
        self._owes = self.is_holding = False
        self.round += 1
        self.due = SyncWord(reason=reason)

    def lose(self) -> None:
        """Record that the link was failed over, and that no unheld answer leaves any more: once that is stated, all
        unheld answers are known.
        """
        newest = self.due or self.word
        kept = () if newest is None else newest.lets_go
        if self.word is not None:
            kept = first_unheld((*kept, *self.word.lets_go))
        self.is_holding = False
        self.round += 1
        self.due = SyncWord(state=SyncState.OUT_OF_SYNC, reason=FAILED_OVER, lets_go=kept)

    def say_again(self) -> None:
        """Write the statement once more, as another value has changed that is written with it."""
        self.due = self.due or self.word

    def look(self, evidence: SyncEvidence) -> None:
        """Take the present observations of the lanes."""
        if evidence.trouble:
            if self.is_holding:
                self._fall(evidence.trouble)
        elif not (self.is_holding or self.crossed) and self.due is None and evidence.is_following:
            self.is_holding = True
            self.round += 1

    def explain(self, reason: str) -> None:
        """State the reason for SYNCING if an operator has to act on it, or that there is none any more."""
        why = SyncWord(reason=self.crossed or reason)
        if self.due is None and self.word not in (None, why) and self.state is SyncState.SYNCING:
            self.due = why

    def prove(self, begun: int) -> None:
        """Record that the follower has all that lay at the source after everything was held in the round that was
        `begun`.
        """
        if self.is_holding and begun == self.round and not self.is_over:
            # Once it is on its way to the ledger, others may rely on it.
            self._owes, self.is_open = True, False
            self.lacked.clear()
            self.due = SyncWord(state=SyncState.IN_SYNC)

    def stop(self, reason: str) -> None:
        """Stop holding answers, for this reason."""
        if self.is_holding:
            self._fall(reason)

    def stand_still(self, late: Mapping[SourceTopicPartition, int], reason: str) -> None:
        """Stop holding answers, as the follower receives nothing of these topics and partitions, and lacks them from
        there on.
        """
        for key, offset in late.items():
            self.lacked[key] = min(offset, self.lacked.get(key, offset))
        self.stop(reason)

    def let_go(self, late: Mapping[SourceTopicPartition, int], reason: str) -> None:
        """Ask for answers to leave unheld, from these offsets on, by topic and partition of the source. Without any it
        is about positions of groups, which leave once it is out of sync.
        """
        if late:
            self.stand_still(late, reason)
        newest = self.due or self.word
        if self.crossed or not self._is_out or self._is_consistent or newest is None or self.may_leave(late):
            return
        merged = first_unheld((*newest.lets_go, *(FirstUnheld(*key, offset) for key, offset in late.items())))
        if merged != newest.lets_go or newest.state is not SyncState.OUT_OF_SYNC:
            self.due = replace(newest, state=SyncState.OUT_OF_SYNC, lets_go=merged)

    def may_leave(self, late: Mapping[SourceTopicPartition, int]) -> bool:
        """Return whether answers from these offsets on may leave unheld: nothing was promised, or it is recorded in the
        ledger.
        """
        duty = self.duty(is_transactional=False)
        if duty is Duty.PASS:
            return True
        if duty is not Duty.LET_GO or self.word is None or self.word.state is not SyncState.OUT_OF_SYNC:
            return False
        written = {(each.topic, each.partition): each.offset for each in self.word.lets_go}
        return all(key in written and written[key] <= offset for key, offset in late.items())

    def wrote(self, word: SyncWord) -> None:
        """Record that the ledger has acknowledged this statement."""
        self.word = word
        if self.due == word:
            self.due = None

    def note_loss(self) -> None:
        """Record that its statement is no longer in the ledger: a gateway or operator deleted it because this gateway
        seemed gone, and the link may have been in sync since.
        """
        was = self.word
        self.word = None
        self.round += 1
        self.is_open = bool(self.crossed)
        self.owe()
        if was is not None and was.state is SyncState.OUT_OF_SYNC:
            self.due = self.due or was
        elif self.due is None or self.due.state is not SyncState.OUT_OF_SYNC:
            self.due = SyncWord(reason=self.crossed)

    def owe(self) -> None:
        """Record that others were in sync while they took this gateway for gone: each unheld answer from now on is
        recorded.
        """
        if not (self._owes or self.is_open):
            self._owes = self.is_holding = True
            self.round += 1

    def _fall(self, reason: str) -> None:
        newest = self.due or self.word
        was_out = self._is_out
        self.is_holding = False
        self.round += 1
        if not self._owes:
            # Writes pass as before: no statement says otherwise.
            return
        kept = newest.lets_go if was_out and newest is not None and newest.state is SyncState.OUT_OF_SYNC else ()
        if was_out and self.word is not None:
            # Earlier unheld answers count until the ledger states that the follower has everything.
            kept = first_unheld((*kept, *self.word.lets_go))
        self.due = SyncWord(state=SyncState.OUT_OF_SYNC, reason=reason, lets_go=kept)


def first_unheld(found: Iterable[FirstUnheld]) -> tuple[FirstUnheld, ...]:
    """Return the first of these offsets for each partition."""
    firsts: dict[SourceTopicPartition, int] = {}
    for each in found:
        key = each.topic, each.partition
        firsts[key] = min(each.offset, firsts.get(key, each.offset))
    return tuple(FirstUnheld(*key, firsts[key]) for key in sorted(firsts))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayWord:
    """A registered gateway, and its statement about a link, `None` for none: without a statement it may answer as it
    likes.

    `described` names it for people, and `gateway` is its id. `heard_s` is how long ago (s) it was heard, by its last
    `beat`, and `since_ms` the begin of its state. By `attached_said` it knows which namespaces are attached
    (`Declaration.attached_said`). One that `has_ended` answers nothing.
    """

    described: str
    heard_s: float
    word: SyncWord | None = None
    since_ms: int = -1
    attached_said: str = ""
    beat: int = -1
    has_ended: bool = False
    gateway: str = ""

    @property
    def is_heard(self) -> bool:
        return self.heard_s <= HEARD_S and not self.has_ended

    @property
    def is_stranger(self) -> bool:
        """Whether it may answer as if there were no such link, as far as is known."""
        return self.word is None and not (self.is_heard or self.has_ended)


class GatewayBeats:
    """Finds gateways that stand still, by repeated looks at their beats: each has fenced itself by then."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}

    def still(self, gateways: Collection[GatewayWord], now_s: float) -> frozenset[str]:
        """Return the ids of the gateways without a beat for so long that they are fenced, as seen at this time."""
        for each in gateways:
            if self._last.get(each.gateway, (None,))[0] != each.beat:
                self._last[each.gateway] = each.beat, now_s
        return frozenset(each.gateway for each in gateways if now_s - self._last[each.gateway][1] > FENCE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchrony(PlainValue):
    """Where a synchronous link stands; `since` is null if unknown.

    The state of a synchronous link, its begin (-1 if unknown), its reason and its gateways. `lets_go` are the offsets
    from which the follower may lack records that a gateway acknowledged; it lacks no others, in or out of sync. With
    `is_hidden` its topics must not be read at the target yet.
    """

    state: SyncState
    reason: TextOrNull = ""
    since_ms: Annotated[int, "since", instant_or_null] = -1
    gateways: tuple[str, ...] = ()
    lets_go: Annotated[tuple[FirstUnheld, ...], "given_up"] = ()
    is_hidden: Annotated[bool, "hidden"] = False

    @property
    def described(self) -> str:
        """The state, its begin and its reason."""
        since = f" since {written_instant(self.since_ms)}" if self.since_ms >= 0 else ""
        hidden = f"; {HIDDEN}" if self.is_hidden else ""
        return f"{self.state}{since}" + (f": {self.in_words}" if self.in_words else "") + hidden

    @property
    def in_words(self) -> str:
        """The reason of the state, its gateways, and the records given up; "" if it is in sync."""
        words = self.reason
        if self.gateways and self.state is not SyncState.IN_SYNC:
            words += f" ({first_few(self.gateways)})"
        if self.lets_go:
            words += f"; {given_up_in_words(self.lets_go)}"
        return words


def given_up_in_words(lets_go: Collection[FirstUnheld]) -> str:
    """Describe the records that were acknowledged without waiting for the follower, which may lack them."""
    named = first_few(f"{each.topic}-{each.partition} from offset {each.offset}" for each in lets_go)
    return f"{format_count(len(lets_go), 'partition')} answered without the follower: {named}"


def synchrony(gateways: Collection[GatewayWord], *, trouble: str, was_in_sync: bool) -> Synchrony:
    """Return the state of a link, from the statements of all registered gateways and the obstacle for its lanes.

    `was_in_sync` means that a gateway was, since the link was made synchronous. A silent one counts for as long as it
    may have answered records that the follower lacks: a gateway that proved otherwise would have removed its statement.
    """
    lets_go = first_unheld(each for one in gateways if one.word is not None for each in one.word.lets_go)
    out = [each for each in gateways if each.word is not None and each.word.state is SyncState.OUT_OF_SYNC]
    if out:
        reason = next((each.word.reason for each in out if each.word is not None and each.word.reason), "")
        since_ms = min(each.since_ms for each in out)
        return _standing(SyncState.OUT_OF_SYNC, reason, out, since_ms=since_ms, lets_go=lets_go)
    missing = SyncState.OUT_OF_SYNC if was_in_sync else SyncState.SYNCING
    if trouble:
        return Synchrony(state=missing, reason=trouble, lets_go=lets_go)
    if not any(each.is_heard for each in gateways):
        return _standing(missing, NO_GATEWAY, gateways)
    waiting = [each for each in gateways if each.word is None or each.word.state is SyncState.SYNCING]
    if waiting:
        if strangers := [each for each in waiting if each.is_stranger]:
            return _standing(SyncState.SYNCING, STRANGER, strangers)
        silent = [each for each in waiting if not each.is_heard]
        for each in waiting:
            if each.word is not None and each.word.reason and not silent:
                return _standing(SyncState.SYNCING, each.word.reason, [each])
        unproven = "a gateway is gone, and the records that it acknowledged are not proven to be at the follower yet"
        return _standing(
            SyncState.SYNCING, unproven if silent else "a gateway has not proven yet that all is there", waiting
        )
    since_ms = max(each.since_ms for each in gateways if each.is_heard)
    return _standing(SyncState.IN_SYNC, "", [each for each in gateways if each.is_heard], since_ms=since_ms)


def _standing(
    state: SyncState,
    reason: str,
    gateways: Collection[GatewayWord],
    *,
    since_ms: int = -1,
    lets_go: tuple[FirstUnheld, ...] = (),
) -> Synchrony:
    names = tuple(sorted(each.described for each in gateways))
    return Synchrony(state=state, reason=reason, since_ms=since_ms, gateways=names, lets_go=lets_go)
