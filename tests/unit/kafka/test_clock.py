"""A machine that sleeps: permission to write must not outlast it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from isthmus.engine.brokers.permission import Granted
from isthmus.kafka import clock as module
from isthmus.kafka.clock import lasting_s

# Only Linux tells the two apart; elsewhere the monotonic clock goes on by itself.
_GOES_ON = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Machine:
    """Two clocks, of which one stands still while the machine is suspended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.awake_s, self.asleep_s = 1000.0, 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(clock_gettime=self._read))

    def _read(self, clock: int) -> float:
        return self.awake_s + (self.asleep_s if clock == _GOES_ON else 0.0)


def test_a_permission_lapses_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wakes up after a minute has none, although hardly a moment passed for its processes."""
    machine, granted = Machine(monkeypatch), Granted(is_given=True)
    granted.renew(lasting_s() + 10.0)
    assert granted.may_send()
    machine.awake_s += 0.001
    machine.asleep_s += 60.0
    assert not granted.may_send()
