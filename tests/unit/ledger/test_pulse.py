"""The pulse of a controller: while quotas hold it back, a successor that waits for silence waits long enough."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.pulse import BEAT_S, SILENCE_S, Pulse
from isthmus.model.process.whereabouts import Liveness, Whereabouts
from isthmus.run.state.vigil import Turn, Vigil

HELD: Final = st.tuples(st.integers(0, 90), st.integers(0, 100))
"""For how long (s) the leader mutes a connection after a beat, and how much (percent) of the greatest delay the write
after it takes."""


def new_pulse() -> Pulse:
    return Pulse("l", Whereabouts(host="db1", pid=12), 0)


def test_nothing_is_vouched_for_beside_former_leases() -> None:
    """What they left on its way may come yet: that something was let go of is announced once they have left nothing."""
    pulse = new_pulse()
    pulse.vouch("now")
    assert pulse.make(1).attached_said == ""
    pulse.be_alone()
    pulse.vouch("now")
    assert [pulse.make(1).attached_said, pulse.make(1).beat] == ["now", 3]


@given(cycles=st.lists(HELD, min_size=1, max_size=20))
def test_a_controller_that_lives_is_never_taken_to_be_gone(cycles: list[tuple[int, int]]) -> None:
    """A write waits where its connection is muted. It takes less than eight seconds, or at most twice as long as the
    one before the last over that connection: a beat shows only how late the one before it was, up to two minutes.

    A connection that is muted for long is left, and what waits is announced over another one.
    """
    pulse, now, muted_until, took_s, before_s = new_pulse(), 0.0, 0.0, 0.0, 0.0
    vigil = Vigil(ControllerDocument(link="l", generation=1, beat=0, started_ms=0), stands_by=True)
    vigil.note_look(now, at_end=True)
    for mute_s, percent in cycles:
        now += BEAT_S
        begun = now
        if pulse.is_muted_longer(muted_until, now):
            muted_until = before_s = took_s = 0.0
        longest_s = max(min(2 * before_s, 120.0) if before_s > BEAT_S else 0.0, SILENCE_S - BEAT_S - 0.1)
        now = max(now + percent / 100 * longest_s, muted_until)
        before_s, took_s = took_s, now - begun
        vigil.note_look(now, at_end=True)
        assert vigil.turn(Liveness.UNKNOWN) is Turn.WAIT
        vigil.hear(pulse.make(1))
        vigil.note_look(now, at_end=True)
        pulse.note_written(begun, now, was_held=took_s > BEAT_S)
        muted_until = now + mute_s
        if pulse.announce_mute(muted_until, now):
            vigil.hear(pulse.make(1))
            vigil.note_look(now, at_end=True)
            muted_until = before_s = took_s = 0.0


def test_a_mute_is_announced_once_and_not_for_ever() -> None:
    """What was announced need not be again, until it grows; a quota that holds for longer is not waited for."""
    pulse = new_pulse()
    assert not pulse.announce_mute(105.0, 100.0)
    assert pulse.announce_mute(106.0, 100.0)
    assert pulse.make(1).held_s == 6.0
    assert not pulse.announce_mute(111.0, 100.0)
    assert pulse.announce_mute(500.0, 100.0)
    assert pulse.make(1).held_s == 120.0
    pulse.note_written(500.0, 501.0, was_held=False)
    assert pulse.make(1).held_s == 0.0
