"""Does the faults of a schedule, and writes each into the history."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from typing import Final

from soak.faults.catalogue import FAULTS, NotNow
from soak.scene import Setting
from soak.schedule import Action, Bout

_POLL_S: Final = 0.1


class Acting:
    """Does one bout after another; `done` counts by row what was really done."""

    def __init__(self, scene: Setting) -> None:
        self.done: Counter[int] = Counter()
        self.skipped: Counter[str] = Counter()
        self._scene = scene

    def notes(self) -> list[str]:
        """What was to be done and was not, with the reasons."""
        return [f"{count} times not done: {name}" for name, count in sorted(self.skipped.items())]

    def act(self, bout: Bout, *, until: float = math.inf) -> None:
        """Do the faults of a bout; returns when all are undone. From `until` on (by the monotonic clock) they are."""
        threads = [threading.Thread(target=self._act, args=(action, until), name=action.fault) for action in bout]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _act(self, action: Action, until: float) -> None:
        tell, fault = self._scene.history.tell, FAULTS[action.fault]
        named = {"number": action.number, "fault": action.fault, "row": action.row}
        self._sleep(min(action.after_s, until - time.monotonic()))
        tell("fault", phase="begin", **named)
        try:
            with fault.done(self._scene, random.Random(action.seed)) as details:
                self.done[action.row] += 1
                tell("fault", phase="done", details=dict(details or {}), **named)
                self._sleep(min(action.lasts_s, until - time.monotonic()))
                tell("fault", phase="undo", **named)
            tell("fault", phase="undone", **named)
        except NotNow as error:
            self.skipped[f"{action.fault} ({error})"] += 1
            tell("fault", phase="skipped", reason=str(error), **named)
        except Exception as error:  # noqa: BLE001  # whatever it was, the run goes on and tells
            self.skipped[f"{action.fault} ({type(error).__name__}: {error})"] += 1
            tell("fault", phase="failed", reason=f"{type(error).__name__}: {error}", **named)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._scene.over.is_set():
            time.sleep(_POLL_S)
