"""Synchronous links: whatever several gateways do, in whatever order, what the link is called is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.model.gateways.synchrony import (
    FAILED_OVER,
    FENCE_S,
    HEARD_S,
    Duty,
    FirstUnheld,
    GatewayBeats,
    GatewayWord,
    OutOfSync,
    SyncEvidence,
    Synchrony,
    SyncPart,
    SyncSettings,
    SyncState,
    SyncWord,
    synchrony,
)
from isthmus.model.naming import SourceTopic, SourceTopicPartition

T, U, V = SourceTopic("t"), SourceTopic("u"), SourceTopic("v")
_PARTITIONS = 2
_GATEWAYS_MAX = 3
_FOLLOWS = SyncEvidence(is_following=True)
_IN_SYNC = SyncWord(state=SyncState.IN_SYNC)


@dataclass
class _Gateway:
    """A gateway of the model: its part, what it sent to the ledger, and answers that wait (partition, offset). One that
    `is_paused` does nothing, and is taken for gone; when it is back it `is_doubted` for as long as others may not have
    heard of that. It `is_doomed` while somebody is about to write over its words. One that `is_cut_off` was it from the
    beginning: it has heard of no link, and passes on everything.
    """

    part: SyncPart
    sent: SyncWord | None = None
    has_landed: bool = False
    waiting: list[tuple[int, int]] = field(default_factory=list)
    proof: tuple[int, list[int]] | None = None
    is_alive: bool = True
    is_paused: bool = False
    is_cut_off: bool = False
    is_doubted: bool = False
    is_doomed: bool = False
    cleared_from: list[int] | None = None

    @property
    def is_at_work(self) -> bool:
        return self.is_alive and not self.is_paused and not self.is_cut_off

    @property
    def duty(self) -> Duty:
        duty = self.part.duty(is_transactional=False)
        return Duty.HOLD if self.is_doubted and duty in (Duty.PASS, Duty.LET_GO) else duty


class _World:
    """Gateways come, answer, write, prove, are killed and cleared, while the follower gets what it gets."""

    def __init__(self, policy: OutOfSync) -> None:
        self.policy = policy
        self.source = [0] * _PARTITIONS
        self.follower = [0] * _PARTITIONS
        self.gateways: dict[int, _Gateway] = {}
        self.ledger: dict[int, SyncWord | None] = {}
        self.was_in_sync = False
        self.had_promised = False
        self.answered: set[tuple[int, int]] = set()

    @property
    def alive(self) -> list[_Gateway]:
        return [each for each in self.gateways.values() if each.is_at_work]

    @property
    def standing(self) -> Synchrony:
        words = [
            GatewayWord(
                described=str(key),
                heard_s=0.0 if self.gateways[key].is_at_work else 2 * HEARD_S,
                word=self.ledger[key],
            )
            for key in self.ledger
        ]
        return synchrony(words, trouble="", was_in_sync=self.was_in_sync)

    def chosen(self, index: int) -> _Gateway | None:
        return self.alive[index % len(self.alive)] if self.alive else None

    def start(self) -> None:
        """It registers, and then looks whether anybody was in sync."""
        if len(self.gateways) == _GATEWAYS_MAX:
            return
        part = SyncPart(SyncSettings(out_of_sync=self.policy), owes=self.was_in_sync)
        key = len(self.gateways)
        self.gateways[key] = _Gateway(part)
        self.ledger[key] = None

    def start_cut_off(self) -> None:
        """It was registered before the link became synchronous."""
        self.start()
        if not self.had_promised and not self.was_in_sync:
            list(self.gateways.values())[-1].is_cut_off = True

    def pass_on(self, partition: int) -> None:
        """A record comes to the source through one that is cut off, and its answer leaves."""
        if any(each.is_cut_off and each.is_alive for each in self.gateways.values()):
            self.answered.add((partition, self.source[partition]))
            self.source[partition] += 1

    def produce(self, index: int, partition: int, *, is_stuck: bool) -> None:
        """A record comes to the source, and perhaps its answer; it may be answered later as well."""
        one = self.chosen(index)
        if one is None or one.duty is Duty.REFUSE:
            return
        one.waiting.append((partition, self.source[partition]))
        self.source[partition] += 1
        if is_stuck:
            self.answer(index, is_stuck=is_stuck)

    def answer(self, index: int, *, is_stuck: bool) -> None:
        """All that waits asks again what is to be done with it; what has waited for long lets go."""
        one = self.chosen(index)
        if one is None:
            return
        late = [each for each in one.waiting if self.follower[each[0]] <= each[1]]
        for each in one.waiting:
            if each not in late:
                self.answered.add(each)
        one.waiting = late
        if not late:
            return
        duty = one.duty
        if duty is Duty.LET_GO or (duty is Duty.HOLD and is_stuck):
            firsts: dict[SourceTopicPartition, int] = {}
            for partition, offset in late:
                firsts.setdefault((T, partition), offset)
            one.part.let_go(firsts, "the follower stood still")
            if one.is_doubted or not one.part.may_leave(firsts):
                return
        elif duty is not Duty.PASS:
            return
        if self.had_promised and not one.part.is_open:
            assert self.policy is not OutOfSync.CONSISTENT, late
        self.answered.update(late)
        one.waiting = []

    def look(self, index: int, *, trouble: bool) -> None:
        if (one := self.chosen(index)) is not None:
            one.part.look(SyncEvidence(trouble="DIVERGED") if trouble else _FOLLOWS)

    def explain(self, index: int, *, is_missing: bool) -> None:
        """It says what it lacks, or that it lacks nothing."""
        if (one := self.chosen(index)) is not None:
            one.part.explain("it may not READ" if is_missing else "")

    def cross(self, index: int, *, is_crossed: bool) -> None:
        """It sees that another link has its topics, or has them no more."""
        if (one := self.chosen(index)) is not None:
            one.part.cross("another link" if is_crossed else "")

    def write(self, index: int) -> None:
        """One step of writing: sent, in the ledger, acknowledged."""
        if (one := self.chosen(index)) is None:
            return
        key = next(key for key, each in self.gateways.items() if each is one)
        if one.sent is None:
            one.sent, one.has_landed = one.part.due, False
        elif not one.has_landed:
            one.has_landed = True
            self.ledger[key] = one.sent
            self.was_in_sync |= one.sent.state is SyncState.IN_SYNC
        else:
            one.part.wrote(one.sent)
            one.sent = None

    def write_through(self, index: int) -> None:
        for _ in range(4):
            self.write(index)

    def catch_up(self) -> None:
        self.follower = [*self.source]

    def synchronize(self, index: int) -> None:
        """What a gateway does that nothing disturbs."""
        self.write_through(index)
        self.look(index, trouble=False)
        self.measure(index)
        self.prove(index)
        self.write_through(index)

    def measure(self, index: int) -> None:
        if (one := self.chosen(index)) is not None and one.part.is_holding:
            one.proof = one.part.round, [*self.source]

    def prove(self, index: int) -> None:
        if (one := self.chosen(index)) is None or one.proof is None or one.part.due is not None:
            return
        begun, ends = one.proof
        if self.covers(ends):
            one.part.prove(begun)

    def follow(self, partition: int, records: int) -> None:
        self.follower[partition] = min(self.follower[partition] + records, self.source[partition])

    def kill(self, index: int) -> None:
        if (one := self.chosen(index)) is not None:
            one.is_alive = False

    def kill_all_cut_off(self) -> None:
        for one in self.gateways.values():
            one.is_alive &= not one.is_cut_off

    def pause(self, index: int) -> None:
        if (one := self.chosen(index)) is not None:
            one.is_paused = True

    def wake(self) -> None:
        for one in self.gateways.values():
            one.is_doubted |= one.is_paused or one.is_cut_off
            one.is_paused = one.is_cut_off = False
        self.hear()

    def hear(self) -> None:
        """All at work say that they are alive, and look what the ledger has of them."""
        for key, one in self.gateways.items():
            if one.is_at_work:
                self.ledger.setdefault(key, None)
                if one.part.word is not None and self.ledger[key] != one.part.word and one.sent is None:
                    one.part.note_loss()
                if one.is_doubted and self.was_in_sync:
                    one.part.owe()
                one.is_doubted &= one.is_doomed
                one.cleared_from = None

    def clear(self) -> None:
        """Whoever is left proves the words of one that is gone, once all that lay at the source by then is there, and
        takes it out if it has ended. That takes a moment, in which it may come back.
        """
        for key, one in self.gateways.items():
            if one.is_doomed:
                if not one.is_alive:
                    self.ledger.pop(key, None)
                elif self.ledger[key] is not None:
                    self.ledger[key] = _IN_SYNC
                one.is_doomed = False
            elif not one.is_at_work and key in self.ledger:
                one.cleared_from = one.cleared_from or [*self.source]
                one.is_doomed = self.covers(one.cleared_from)

    def covers(self, ends: list[int]) -> bool:
        return all(has >= end for has, end in zip(self.follower, ends, strict=True))

    def check(self) -> None:
        found = self.standing
        missing = {each for each in self.answered if self.follower[each[0]] <= each[1]}
        self.had_promised |= found.state is SyncState.IN_SYNC
        if found.state is SyncState.IN_SYNC:
            assert not missing
            assert not found.lets_go
        if self.had_promised and all(word is not None for word in self.ledger.values()):
            said = {word.state for word in self.ledger.values() if word is not None}
            if SyncState.SYNCING not in said:
                firsts = {each.partition: each.offset for each in found.lets_go}
                assert all(partition in firsts and firsts[partition] <= offset for partition, offset in missing)


_STEPS: dict[str, Callable[[_World, int], None]] = {
    "start": lambda world, _: world.start(),
    "start cut off": lambda world, _: world.start_cut_off(),
    "pass on": lambda world, n: world.pass_on(n % 2),
    "kill all cut off": lambda world, _: world.kill_all_cut_off(),
    "produce": lambda world, n: world.produce(n, n // 2 % 2, is_stuck=n > 3),
    "answer": lambda world, n: world.answer(n, is_stuck=n > 3),
    "look": lambda world, n: world.look(n, trouble=n > 5),
    "cross": lambda world, n: world.cross(n // 2, is_crossed=n % 2 == 1),
    "explain": lambda world, n: world.explain(n // 2, is_missing=n % 2 == 1),
    "write": lambda world, n: world.write(n),
    "write through": lambda world, n: world.write_through(n),
    "synchronize": lambda world, n: world.synchronize(n),
    "measure": lambda world, n: world.measure(n),
    "prove": lambda world, n: world.prove(n),
    "follow": lambda world, n: world.follow(n % 2, 1 + n // 4),
    "catch up": lambda world, _: world.catch_up(),
    "kill": lambda world, n: world.kill(n),
    "clear": lambda world, _: world.clear(),
    "pause": lambda world, n: world.pause(n),
    "wake": lambda world, _: world.wake(),
    "hear": lambda world, _: world.hear(),
}
_OFTEN = ("produce", "answer", "synchronize", "catch up")


@given(
    policy=st.sampled_from(OutOfSync),
    steps=st.lists(
        st.tuples(st.sampled_from((*_STEPS, *_OFTEN, *_OFTEN)), st.integers(0, 7)), min_size=20, max_size=40
    ),
)
@settings(max_examples=150, deadline=None)
def test_whatever_several_gateways_do(policy: OutOfSync, steps: list[tuple[str, int]]) -> None:
    """While they are called in sync, all that was ever answered is at the follower; out of sync whatever is missing
    lies at or behind an offset that was written before; and what is consistent answers nothing that is missing.
    """
    world = _World(policy)
    world.start()
    for name, number in steps:
        _STEPS[name](world, number)
        world.check()


_PAUSED_OUT_OF_SYNC = (
    "start 0",
    "start 0",
    "synchronize 0",
    "synchronize 1",
    "produce 4",
    "write through 0",
    "pause 0",
)
_PAUSED_AT_ITS_BEGINNING = ("start 0", "start 0", "synchronize 0", "write through 1", "pause 1")


@pytest.mark.parametrize("policy", OutOfSync)
@pytest.mark.parametrize(
    "steps",
    [
        # Its words are written over after it has come back.
        (*_PAUSED_OUT_OF_SYNC, "catch up 0", "clear 0", "wake 0", "produce 4", "clear 0", "hear 0", "produce 4"),
        # Before, and the others were in sync meanwhile.
        (*_PAUSED_AT_ITS_BEGINNING, "catch up 0", "clear 0", "clear 0", "wake 0", "produce 5", "hear 0", "produce 5"),
    ],
)
def test_one_that_was_paused_comes_back(policy: OutOfSync, steps: tuple[str, ...]) -> None:
    """The same holds where others have taken it for gone."""
    world = _World(policy)
    for each in steps:
        name, _, number = each.rpartition(" ")
        _STEPS[name](world, int(number))
        world.check()
    assert world.had_promised


@pytest.mark.parametrize("policy", OutOfSync)
@pytest.mark.parametrize("is_heard_again", [True, False])
def test_one_that_is_cut_off_keeps_a_link_from_being_in_sync(policy: OutOfSync, is_heard_again: bool) -> None:
    """It hears of no link, and answers what the follower lacks, until it is heard again or has ended."""
    world = _World(policy)
    begun = "start 0", "start cut off 0", "synchronize 0", "clear 0", "clear 0", "pass on 0", "clear 0"
    ended = ("wake 0", "synchronize 1") if is_heard_again else ("kill all cut off 0",)
    later = "pass on 0", *ended, "catch up 0", "clear 0", "clear 0"
    for each in (*begun, "catch up 0", "synchronize 0", "|", *later):
        name, _, number = each.rpartition(" ")
        if name:
            _STEPS[name](world, int(number))
            world.check()
        else:
            assert not world.had_promised
    assert world.had_promised


def test_one_that_knows_nothing_of_a_link_is_named() -> None:
    """With what says that it has ended; one that has is waited for until all is proven."""
    here = GatewayWord(described="here", heard_s=1.0, word=_IN_SYNC)
    gone = GatewayWord(described="gone", heard_s=60.0)
    told = synchrony([gone, here], trouble="", was_in_sync=False)
    assert (told.state, told.gateways) == (SyncState.SYNCING, ("gone",))
    assert "isthmus gateway forget" in told.in_words
    ended = synchrony([replace(gone, has_ended=True), here], trouble="", was_in_sync=False)
    assert ended.state is SyncState.SYNCING
    assert "not proven" in ended.in_words


def part(policy: OutOfSync = OutOfSync.AVAILABLE, *, owes: bool = False) -> SyncPart:
    """A part whose first word the ledger has."""
    found = SyncPart(SyncSettings(out_of_sync=policy), owes=owes)
    assert found.due is not None
    found.wrote(found.due)
    return found


def in_sync(policy: OutOfSync = OutOfSync.AVAILABLE) -> SyncPart:
    found = part(policy)
    found.look(_FOLLOWS)
    found.prove(found.round)
    found.wrote(_IN_SYNC)
    return found


def test_nothing_is_held_before_the_lanes_follow() -> None:
    """A link that was never in sync passes all, transactions too; once lanes follow its answers are held, and it is in
    sync when all that lay at the source by then is proven and the ledger has that.
    """
    found = part()
    assert found.duty(is_transactional=True) is Duty.PASS
    found.look(_FOLLOWS)
    assert (found.duty(is_transactional=False), found.state) == (Duty.HOLD, SyncState.SYNCING)
    found.prove(found.round - 1)
    assert not found.due
    found.prove(found.round)
    assert (found.due, found.state) == (_IN_SYNC, SyncState.SYNCING)
    found.wrote(_IN_SYNC)
    assert (found.duty(is_transactional=False), found.state) == (Duty.HOLD, SyncState.IN_SYNC)


def test_available_answers_once_the_first_offset_is_written() -> None:
    """Nothing leaves before the ledger has its first offset; a partition that comes later is written by itself, and
    back in sync nothing is given up any more.
    """
    found = in_sync()
    found.let_go({(T, 0): 7}, "it stood still")
    assert (found.duty(is_transactional=False), found.may_leave({(T, 0): 7})) == (Duty.LET_GO, False)
    assert found.duty(is_transactional=True) is Duty.REFUSE
    assert found.due == SyncWord(state=SyncState.OUT_OF_SYNC, reason="it stood still", lets_go=(FirstUnheld(T, 0, 7),))
    found.wrote(found.due)
    assert found.may_leave({(T, 0): 9})
    assert not found.may_leave({(T, 1): 3})
    found.let_go({(T, 1): 3}, "")
    assert found.due is not None
    found.wrote(found.due)
    assert found.may_leave({(T, 0): 9, (T, 1): 3})
    found.look(_FOLLOWS)
    found.prove(found.round)
    assert found.due == _IN_SYNC


@pytest.mark.parametrize("policy", OutOfSync)
def test_what_was_waited_for_in_vain_is_remembered(policy: OutOfSync) -> None:
    """Of each partition the first offset, until all is proven to be there; whoever never was in sync remembers too."""
    for found in (in_sync(policy), part(policy)):
        found.look(_FOLLOWS)
        found.let_go({(T, 0): 7, (U, 0): 3}, "it stood still")
        found.let_go({(T, 0): 9, (U, 0): 2}, "")
        found.stand_still({(V, 1): 4}, "so did this")
        assert found.lacked == {(T, 0): 7, (U, 0): 2, (V, 1): 4}
        if found.due is not None:
            found.wrote(found.due)
        found.look(_FOLLOWS)
        assert found.lacked
        found.prove(found.round)
        assert not found.lacked


def test_consistent_refuses_until_all_is_there() -> None:
    """Nothing ever leaves unheld; it goes on by itself once everything is proven."""
    found = in_sync(OutOfSync.CONSISTENT)
    found.look(SyncEvidence(trouble="no controller runs it"))
    assert (found.duty(is_transactional=False), found.may_leave({(T, 0): 7})) == (Duty.REFUSE, False)
    found.let_go({(T, 0): 7}, "")
    assert found.due is not None
    assert not found.due.lets_go
    found.wrote(found.due)
    found.look(_FOLLOWS)
    assert found.duty(is_transactional=False) is Duty.HOLD
    assert found.duty(is_transactional=True) is Duty.REFUSE


def test_what_is_on_its_way_to_the_ledger_counts() -> None:
    """Others may read that it is in sync before it hears that this was written: what comes between is written too."""
    found = part()
    found.look(_FOLLOWS)
    found.prove(found.round)
    found.let_go({(T, 0): 7}, "it stood still")
    assert not found.may_leave({(T, 0): 7})
    found.wrote(_IN_SYNC)
    assert not found.may_leave({(T, 0): 7})
    assert found.due is not None
    found.wrote(found.due)
    assert found.may_leave({(T, 0): 7})


@pytest.mark.parametrize("policy", OutOfSync)
def test_one_that_was_failed_over_says_so(policy: OutOfSync) -> None:
    """With all that it has let go, whether that was written before or not."""
    found = in_sync(policy)
    found.let_go({(T, 0): 7}, "it stood still")
    if found.due is not None:
        found.wrote(found.due)
    found.let_go({(U, 0): 3}, "")
    found.lose()
    is_available = policy is OutOfSync.AVAILABLE
    firsts = (FirstUnheld(T, 0, 7), FirstUnheld(U, 0, 3)) if is_available else ()
    assert found.due == SyncWord(state=SyncState.OUT_OF_SYNC, reason=FAILED_OVER, lets_go=firsts)


def test_an_operator_lets_everything_go() -> None:
    """Asynchronous is what was chosen: all passes at once."""
    found = in_sync(OutOfSync.CONSISTENT)
    found.end()
    assert found.duty(is_transactional=True) is Duty.PASS
    assert found.may_leave({(T, 0): 7})


def test_one_that_was_taken_for_gone_begins_anew() -> None:
    """Whose words were deleted while it was paused holds from the first answer on, and proves everything again."""
    found = in_sync()
    begun = found.round
    found.note_loss()
    assert found.due == SyncWord()
    found.wrote(SyncWord())
    found.prove(begun)
    assert not found.due
    assert found.duty(is_transactional=False) is Duty.HOLD


def test_a_gateway_that_stands_still_is_fenced_sooner_than_it_is_silent() -> None:
    """Who looks again and again sees it by its beats; one that came, or beat, since is at work for as long again."""
    first, other = (GatewayWord(gateway=each, described=each, heard_s=1.0, beat=1) for each in ("first", "other"))
    beats = GatewayBeats()
    assert beats.still([first], 10.0) == frozenset()
    assert beats.still([first, other], 10.0 + FENCE_S) == frozenset()
    assert beats.still([first, other], 10.1 + FENCE_S) == {"first"}
    assert beats.still([replace(first, beat=2), other], 10.2 + FENCE_S) == frozenset()
    assert beats.still([replace(first, beat=2), other], 10.1 + 2 * FENCE_S) == {"other"}


def test_one_that_was_started_again_does_not_speak_for_the_one_before() -> None:
    """Containers may give it the same name, host and pid: it beats, and the other one is fenced all the same."""
    gone, new = (GatewayWord(gateway=each, described="kafka:9092 (1)", heard_s=1.0, beat=9) for each in ("a", "b"))
    beats = GatewayBeats()
    for beat in range(3):
        still = beats.still([gone, replace(new, beat=beat)], 10.0 + beat * FENCE_S)
    assert still == {"a"}


def test_one_that_was_taken_for_gone_owes_what_others_promised() -> None:
    """While it was taken for gone the others may have been in sync: although it never was, nothing leaves that is
    neither at the follower nor written down, from the moment on at which it hears of that.
    """
    found = part()
    assert found.duty(is_transactional=False) is Duty.PASS
    found.note_loss()
    assert (found.duty(is_transactional=False), found.may_leave({(T, 0): 7})) == (Duty.HOLD, False)
    found.let_go({(T, 0): 7}, "it stood still")
    assert not found.may_leave({(T, 0): 7})
    assert found.due is not None
    found.wrote(found.due)
    assert found.may_leave({(T, 0): 7})
    assert found.word == SyncWord(state=SyncState.OUT_OF_SYNC, reason="it stood still", lets_go=(FirstUnheld(T, 0, 7),))


@pytest.mark.parametrize(
    ("gateways", "was_in_sync", "state"),
    [
        ((), False, SyncState.SYNCING),
        ((), True, SyncState.OUT_OF_SYNC),
        ((_IN_SYNC,), True, SyncState.IN_SYNC),
        ((_IN_SYNC, None), True, SyncState.SYNCING),
        ((_IN_SYNC, SyncWord()), True, SyncState.SYNCING),
        ((_IN_SYNC, SyncWord(state=SyncState.OUT_OF_SYNC)), True, SyncState.OUT_OF_SYNC),
    ],
)
def test_where_a_link_stands_follows_from_all_gateways(
    gateways: tuple[SyncWord | None, ...], was_in_sync: bool, state: SyncState
) -> None:
    """One that has not said anything may answer what it likes, and one that is out of sync is enough."""
    words = [GatewayWord(described="g", heard_s=0.0, word=word) for word in gateways]
    assert synchrony(words, trouble="", was_in_sync=was_in_sync).state is state


def test_one_that_is_gone_in_sync_has_left_nothing() -> None:
    """It answered only what was there; with no other nothing is held any more."""
    gone = GatewayWord(described="gone", heard_s=60.0, word=_IN_SYNC)
    here = GatewayWord(described="here", heard_s=1.0, word=_IN_SYNC)
    assert synchrony([gone, here], trouble="", was_in_sync=True).state is SyncState.IN_SYNC
    alone = synchrony([gone], trouble="", was_in_sync=True)
    assert alone.state is SyncState.OUT_OF_SYNC
    assert not alone.lets_go
    assert "no gateway is heard" in alone.in_words


@pytest.mark.parametrize("policy", OutOfSync)
def test_one_of_two_links_with_the_same_topics_promises_nothing(policy: OutOfSync) -> None:
    """From when the ledger has that: until then its answers wait. Once it has the topics for itself all is proven."""
    found = in_sync(policy)
    found.let_go({(T, 0): 7}, "it stood still")
    found.cross("b too")
    assert (found.duty(is_transactional=False), found.has_yielded) == (Duty.HOLD, False)
    assert found.due == SyncWord(reason="b too")
    found.let_go({(T, 0): 7}, "it stands still")
    found.wrote(_IN_SYNC)
    assert not found.has_yielded, "that was on its way"
    assert found.due is not None
    found.wrote(found.due)
    assert (found.duty(is_transactional=True), found.has_yielded) == (Duty.PASS, True)
    found.look(_FOLLOWS)
    found.look(SyncEvidence(trouble="DIVERGED"))
    found.explain("it may not read")
    assert not found.due, "that is not what it waits for"
    assert (found.state, found.has_yielded) == (SyncState.SYNCING, True)
    told = synchrony([GatewayWord(described="g", heard_s=1.0, word=found.word)], trouble="", was_in_sync=True)
    assert (told.state, told.reason) == (SyncState.SYNCING, "b too")
    found.cross("")
    found.owe()
    assert found.due is not None
    found.wrote(found.due)
    assert found.duty(is_transactional=False) is Duty.PASS, "the follower may lack what was answered"
    found.look(_FOLLOWS)
    found.prove(found.round)
    assert found.due == _IN_SYNC
