"""When everything was whole and the mirror ran, so that nothing but this could truly be shown; and when none ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from soak.history import Event
from soak.judge.timeline import Machine

SETTLED_S: Final = 60.0
"""So long after everything is whole, and after a mirror was started, all that had been in the way is over."""
_BUSY: Final = 3.0
"""Who is so short of processors may be silent for ten seconds although all is well, and is rightly called so."""
_STEPS: Final = {"started": 1, "rival started": 1, "ended": -1, "rival ended": -1}
_FROZEN: Final = "driver-frozen"
CUTOVER: Final = "cutover"
"""The phase of a run in which a link lets go of its source, which may be cut off for that: nothing is calm any more."""
_UNSETTLING: Final = frozenset({"started", "ended", "signalled", "stopping", "stopped", "rival started", "rival ended"})


class Calm:
    """The times between bouts, from a while after each on. Before the first one everything is still beginning."""

    def __init__(self, events: Sequence[Event], machine: Machine) -> None:
        self._machine = machine
        self._bouts = [event for event in events if event["kind"] == "bout"]
        self._over = next((e["at"] for e in events if e["kind"] == "phase" and e["name"] == CUTOVER), float("inf"))
        self._unsettled = [e["at"] for e in events if e["kind"] == "mirror" and e["did"] in _UNSETTLING]

    def lasts(self, begin: float, end: float) -> bool:
        """Whether it was calm from one moment to another, and had been for a while."""
        healed = max(
            (each["at"] for each in self._bouts if each["phase"] == "healed" and each["at"] <= begin), default=-1
        )
        if (
            healed < 0
            or end >= self._over
            or any(healed < each["at"] <= end for each in self._bouts if each["phase"] == "begin")
        ):
            return False
        since = float(max([healed, *(at for at in self._unsettled if at <= end)]))
        stretch = self._machine.stretch(since, end)
        return self._machine.stretch(begin, end) <= _BUSY and begin - since > SETTLED_S * stretch


def absences(events: Sequence[Event]) -> list[tuple[float, float]]:
    """When no process of the mirror ran, or only one that was frozen. The last may have no end."""
    found: list[tuple[float, float]] = []
    running, since = 0, 0.0
    for event in events:
        before = running
        if event["kind"] == "mirror":
            running += _STEPS.get(event["did"], 0)
        elif event["kind"] == "fault" and event["fault"] == _FROZEN:
            running += {"done": -1, "undo": 1}.get(event["phase"], 0)
        if before > 0 and running <= 0:
            since = event["at"]
        if before <= 0 < running:
            found.append((since, event["at"]))
    return found
