"""Synchronous links (KIP-986): what a gateway does with answers at a moment, and where a link stands as they all tell.

Every gateway decides for itself, and writes down what it decided before it acts on it. Nobody coordinates them: where
the link stands follows from what all of them have written (`synchrony`), so that any number of them is right.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, NamedTuple, TypedDict

from isthmus.model.instant import written_instant
from isthmus.model.wording import counted, first_few

Mode = Literal["async", "sync"]
SYNC: Final = "sync"
LAG_MAX_MS: Final = 10_000
HEARD_S: Final = 10.0
"""A gateway of which nothing was heard for longer counts as silent. It has fenced itself by then (`FENCE_S`)."""
FENCE_S: Final = 5.0
"""A gateway that has not heard the ledger for so long, or not been heard there, answers nothing that is not held."""
LOOK_S: Final = 1.0
"""So often a gateway looks at the ledgers, and says that it is alive."""
HIDDEN: Final = "its topics are not to be read at the target yet"
STRANGER: Final = (
    "a gateway that is not heard has not said that it knows of the link: unless it has ended it answers as before "
    "(`isthmus gateway forget` says that it has)"
)
NO_GATEWAY: Final = "no gateway is heard: nothing is held"
ONE_FOLLOWER: Final = "acknowledgements of a topic wait for one follower"
FAILED_OVER: Final = "it was failed over: nothing more of it is answered that the follower lacks"


class OutOfSync(enum.StrEnum):
    """What writers are told while the follower lags: they go on, or they are refused until somebody decides."""

    AVAILABLE = "available"
    CONSISTENT = "consistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """How a link is synchronous. An acknowledgement that has waited for `lag_max_ms` while the follower got nothing of
    its partition ends it for now. With `raise_acks` writes that ask for acks=1 wait as well.
    """

    lag_max_ms: int = LAG_MAX_MS
    out_of_sync: OutOfSync = OutOfSync.AVAILABLE
    raise_acks: bool = False


class SyncState(enum.StrEnum):
    """Where a synchronous link stands, as one gateway tells or all of them."""

    SYNCING = "SYNCING"
    """Not everything that was ever acknowledged is known to be at the follower yet."""
    IN_SYNC = "IN_SYNC"
    """Whatever was acknowledged is at the follower."""
    OUT_OF_SYNC = "OUT_OF_SYNC"
    """Answers leave that the follower may lack, or writers are refused."""


class Duty(enum.Enum):
    """What is to be done with a write into a topic of a synchronous link."""

    PASS = enum.auto()
    """It passes, and nobody has been promised anything: the link has never been in sync, or is asynchronous again."""
    HOLD = enum.auto()
    """Its answer waits until the follower has it."""
    LET_GO = enum.auto()
    """Its answer waits only until it is written down that the follower may lack it."""
    REFUSE = enum.auto()
    """It is not forwarded."""


class FirstUnheld(NamedTuple):
    """The first offset of a source's partition whose answer left, or may have, while the follower lacked it."""

    topic: str
    partition: int
    offset: int


class FirstUnheldJson(TypedDict):
    """The first offset of a source's partition that was answered without waiting for the follower."""

    topic: str
    partition: int
    offset: int


def first_unheld_dict(each: FirstUnheld) -> FirstUnheldJson:
    """Plain values under stable names."""
    return {"topic": each.topic, "partition": each.partition, "offset": each.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncWord:
    """What a gateway says of a link, why, and what of it left unheld, by topic and partition."""

    state: SyncState = SyncState.SYNCING
    reason: str = ""
    lets_go: tuple[FirstUnheld, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvidence:
    """What a gateway sees of a link: what keeps its lanes from following, "" for nothing, and whether they follow: then
    the follower has what it lacked when it stood still (`SyncPart.lacked`) too.
    """

    trouble: str = ""
    is_following: bool = False


class SyncPart:
    """The part of one gateway in one synchronous link, without a clock or a socket.

    `word` is what the ledger is known to hold of it, `None` for nothing, and `due` what has to be written next. It
    `owes` as soon as it was in sync, or was begun at a link that had been: from then on nothing leaves that is neither
    at the follower nor written down. `round` is another one whenever what was acknowledged before may be missing.
    `lacked` is what the follower was waited for in vain since all was there: the first offset of each topic and
    partition of the source. As long as it lacks them it would only stand still again. While it is `crossed` by another
    link its topics are held for that one, and nothing is promised here, for the reason that this says. From then on it
    `is_open` what the follower lacks of what was answered, until all is proven.
    """

    def __init__(self, settings: SyncSettings, *, owes: bool) -> None:
        self.settings = settings
        self.word: SyncWord | None = None
        self.due: SyncWord | None = SyncWord()
        self.round = 0
        self.lacked: dict[tuple[str, int], int] = {}
        self.is_holding = owes
        self._owes = owes
        self.is_open = False
        self.crossed = ""
        self.is_over = False

    @property
    def state(self) -> SyncState:
        """What it has to be called at this moment: what is to be written counts before it is, if it gives up more."""
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
        """What is to be done with a write at this moment, if the gateway is not fenced."""
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
        """The link is asynchronous from now on: that was chosen, and all that is held may leave."""
        self.is_over = True

    @property
    def has_yielded(self) -> bool:
        """Whether the ledger has that another link holds for its topics."""
        return bool(self.crossed) and self.word == SyncWord(reason=self.crossed)

    def cross(self, reason: str) -> None:
        """Another link holds for its topics, for this reason, or none does any more (""): what was answered meanwhile
        nobody has counted, so that all is to be proven anew.
        """
        if reason == self.crossed:
            return
        self.crossed, self.is_open = reason, True
        self._owes = self.is_holding = False
        self.round += 1
        self.due = SyncWord(reason=reason)

    def lose(self) -> None:
        """The link was failed over, and nothing leaves unheld any more: to be said, so that all that left is known."""
        newest = self.due or self.word
        kept = () if newest is None else newest.lets_go
        if self.word is not None:
            kept = first_unheld((*kept, *self.word.lets_go))
        self.is_holding = False
        self.round += 1
        self.due = SyncWord(state=SyncState.OUT_OF_SYNC, reason=FAILED_OVER, lets_go=kept)

    def say_again(self) -> None:
        """What it says is to be written once more, as something else has changed that is written with it."""
        self.due = self.due or self.word

    def look(self, evidence: SyncEvidence) -> None:
        """Take in what is seen of the lanes."""
        if evidence.trouble:
            if self.is_holding:
                self._fall(evidence.trouble)
        elif not (self.is_holding or self.crossed) and self.due is None and evidence.is_following:
            self.is_holding = True
            self.round += 1

    def explain(self, reason: str) -> None:
        """Say why it is SYNCING, where somebody has to do something about that, or no more."""
        why = SyncWord(reason=self.crossed or reason)
        if self.due is None and self.word not in (None, why) and self.state is SyncState.SYNCING:
            self.due = why

    def prove(self, begun: int) -> None:
        """The follower has all that lay at the source after everything was held in the round that was `begun`."""
        if self.is_holding and begun == self.round and not self.is_over:
            # Once it is on its way to the ledger others may count on it.
            self._owes, self.is_open = True, False
            self.lacked.clear()
            self.due = SyncWord(state=SyncState.IN_SYNC)

    def stop(self, reason: str) -> None:
        """Hold no more, for this reason."""
        if self.is_holding:
            self._fall(reason)

    def stand_still(self, late: Mapping[tuple[str, int], int], reason: str) -> None:
        """Hold no more, as the follower gets nothing of these topics and partitions, and lacks them from there on."""
        for key, offset in late.items():
            self.lacked[key] = min(offset, self.lacked.get(key, offset))
        self.stop(reason)

    def let_go(self, late: Mapping[tuple[str, int], int], reason: str) -> None:
        """Answers are to leave unheld, from these offsets on, by topic and partition of the source. Without any it is
        about positions of groups, which leave once it is out of sync.
        """
        if late:
            self.stand_still(late, reason)
        newest = self.due or self.word
        if self.crossed or not self._is_out or self._is_consistent or newest is None or self.may_leave(late):
            return
        merged = first_unheld((*newest.lets_go, *(FirstUnheld(*key, offset) for key, offset in late.items())))
        if merged != newest.lets_go or newest.state is not SyncState.OUT_OF_SYNC:
            self.due = replace(newest, state=SyncState.OUT_OF_SYNC, lets_go=merged)

    def may_leave(self, late: Mapping[tuple[str, int], int]) -> bool:
        """Whether answers from these offsets on may leave unheld: nothing was promised, or the ledger has it."""
        duty = self.duty(is_transactional=False)
        if duty is Duty.PASS:
            return True
        if duty is not Duty.LET_GO or self.word is None or self.word.state is not SyncState.OUT_OF_SYNC:
            return False
        written = {(each.topic, each.partition): each.offset for each in self.word.lets_go}
        return all(key in written and written[key] <= offset for key, offset in late.items())

    def wrote(self, word: SyncWord) -> None:
        """The ledger has acknowledged this."""
        self.word = word
        if self.due == word:
            self.due = None

    def lost(self) -> None:
        """What it has written is not in the ledger any more: whoever deleted it took this gateway for gone, and may
        have been in sync since.
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
        """Others were in sync while they took it for gone: what leaves unheld from now on is written down."""
        if not (self._owes or self.is_open):
            self._owes = self.is_holding = True
            self.round += 1

    def _fall(self, reason: str) -> None:
        newest = self.due or self.word
        was_out = self._is_out
        self.is_holding = False
        self.round += 1
        if not self._owes:
            # It passes as before: nobody was told that it does not.
            return
        kept = newest.lets_go if was_out and newest is not None and newest.state is SyncState.OUT_OF_SYNC else ()
        if was_out and self.word is not None:
            # What was let go of before counts until the ledger has that everything is there.
            kept = first_unheld((*kept, *self.word.lets_go))
        self.due = SyncWord(state=SyncState.OUT_OF_SYNC, reason=reason, lets_go=kept)


def first_unheld(found: Iterable[FirstUnheld]) -> tuple[FirstUnheld, ...]:
    """Of each partition the first of these offsets."""
    firsts: dict[tuple[str, int], int] = {}
    for each in found:
        key = each.topic, each.partition
        firsts[key] = min(each.offset, firsts.get(key, each.offset))
    return tuple(FirstUnheld(*key, firsts[key]) for key in sorted(firsts))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayWord:
    """A gateway that has registered, and what it has said of a link, `None` for nothing: it may answer what it likes.

    `described` says which one it is to people, and `gateway` is its id. `heard_s` is how long ago (s) it was heard, by
    its last `beat`, and `since_ms` since when it says this. By `attached_said` it knows what is attached
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
        """Whether it may answer as if there were no such link, for all that is known."""
        return self.word is None and not (self.is_heard or self.has_ended)


class GatewayBeats:
    """Which gateways stand still, by the looks of one who looks again and again: each has fenced itself by then."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}

    def still(self, gateways: Collection[GatewayWord], now_s: float) -> frozenset[str]:
        """Those of which no beat came for so long that they are fenced, by their ids, as seen at this time."""
        for each in gateways:
            if self._last.get(each.gateway, (None,))[0] != each.beat:
                self._last[each.gateway] = each.beat, now_s
        return frozenset(each.gateway for each in gateways if now_s - self._last[each.gateway][1] > FENCE_S)


class SynchronyJson(TypedDict):
    """Where a synchronous link stands; `since` is null if unknown."""

    state: Annotated[str, SyncState]
    reason: str | None
    since: str | None
    gateways: list[str]
    given_up: list[FirstUnheldJson]
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchrony:
    """Where a synchronous link stands, since when (-1 if that is not known), why and by which gateways. `lets_go` is
    what may be missing at the follower of what was acknowledged by a gateway; nothing else is, in or out of sync.
    With `is_hidden` nobody is to read its topics at the target yet.
    """

    state: SyncState
    reason: str = ""
    since_ms: int = -1
    gateways: tuple[str, ...] = ()
    lets_go: tuple[FirstUnheld, ...] = ()
    is_hidden: bool = False

    @property
    def told(self) -> str:
        """Where it stands, since when and why."""
        since = f" since {written_instant(self.since_ms)}" if self.since_ms >= 0 else ""
        hidden = f"; {HIDDEN}" if self.is_hidden else ""
        return f"{self.state}{since}" + (f": {self.in_words}" if self.in_words else "") + hidden

    @property
    def in_words(self) -> str:
        """Why it stands so, by which gateways, and what is given up; "" where it is in sync."""
        told = self.reason
        if self.gateways and self.state is not SyncState.IN_SYNC:
            told += f" ({first_few(self.gateways)})"
        if self.lets_go:
            told += f"; {given_up_in_words(self.lets_go)}"
        return told

    def as_dict(self) -> SynchronyJson:
        """Plain values under stable names."""
        return {
            "state": str(self.state),
            "reason": self.reason or None,
            "since": written_instant(self.since_ms) if self.since_ms >= 0 else None,
            "gateways": list(self.gateways),
            "given_up": [first_unheld_dict(each) for each in self.lets_go],
            "hidden": self.is_hidden,
        }


def given_up_in_words(lets_go: Collection[FirstUnheld]) -> str:
    """What was acknowledged without waiting for the follower, which may lack it."""
    named = first_few(f"{each.topic}-{each.partition} from offset {each.offset}" for each in lets_go)
    return f"{counted(len(lets_go), 'partition')} answered without the follower: {named}"


def synchrony(gateways: Collection[GatewayWord], *, trouble: str, was_in_sync: bool) -> Synchrony:
    """Where a link stands, given what every gateway said that is registered, and what keeps its lanes from following.

    `was_in_sync` tells that a gateway was, since it was made synchronous. One that is silent counts for as long as it
    may have answered what the follower lacks: nobody has proven otherwise, or its words would be gone.
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
        told = "a gateway is gone, and what it answered is not proven to be at the follower yet"
        return _standing(
            SyncState.SYNCING, told if silent else "a gateway has not proven yet that all is there", waiting
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
