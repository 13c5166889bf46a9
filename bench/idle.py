"""What a contender costs while nothing happens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.cases import IdleCase
from bench.contenders import Contender
from bench.copying import CopyFailed, running
from bench.pouring import Pour
from bench.processes import cpu_s
from bench.rig import Rig

_REACH_S: Final = 180.0


def idle_cost_of(
    rig: Rig, contender: Contender, case: IdleCase, filling: Pour, folder: Path, label: str
) -> dict[str, float]:
    """CPU of a contender's processes while all its partitions are copied and quiet.

    :raises CopyFailed: It did not copy the one record of every partition first.
    """
    copy = rig.copy(filling, label=label, folder=folder)
    with running(rig, contender, copy) as run:
        deadline = time.monotonic() + _REACH_S
        while sum(rig.target.ends(run.target_topic, filling.partitions)) < filling.records:
            if time.monotonic() > deadline or run.has_ended:
                raise CopyFailed(f"the records did not arrive within {_REACH_S:.0f} s")
            time.sleep(0.5)
        time.sleep(case.settle_s)
        began, used = time.monotonic(), cpu_s(run.pid)
        time.sleep(case.term_s)
        return {"cpu_percent": (cpu_s(run.pid) - used) / (time.monotonic() - began) * 100}
