"""The permission to write, as time passes."""

from __future__ import annotations

import pytest

from isthmus.engine.brokers import permission as module
from isthmus.engine.brokers.permission import Granted


class Clock:
    """The time the permission sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module, "lasting_s", lambda: self.now)


def test_every_lapse_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever renews hears whether the time had run out before, however short that was, and only when it has time."""
    clock, granted = Clock(monkeypatch), Granted(is_given=True)
    assert not granted.renew(110.0)
    clock.now = 109.999
    assert (granted.may_write(), granted.renew(110.0), granted.renew(111.0)) == (True, False, False)
    clock.now = 111.0
    assert (granted.may_write(), granted.renew(111.0), granted.renew(112.0)) == (False, False, True)
    assert (granted.may_write(), granted.renew(113.0)) == (True, False)


def test_a_lease_that_is_not_due_or_over_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time alone permits nothing before it is the lease's turn, nor after its end; what has begun may be finished."""
    Clock(monkeypatch)
    granted = Granted(is_given=False)
    granted.renew(110.0)
    assert not granted.may_write()
    granted.is_given = True
    assert granted.may_write()
    granted.is_over = True
    assert (granted.may_write(), granted.may_send()) == (False, True)
