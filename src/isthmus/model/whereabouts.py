"""Which process on which host, and whether it can still be there. No /proc is read here."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = -1


class Liveness(enum.Enum):
    """Whether a process runs, as far as another one can know."""

    ALIVE = enum.auto()
    DEAD = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """One process: the name of its host, for people, and what tells it from all others.

    `host_id` names a set of processes that see one another by the same pids (one boot of one kernel, and one pid
    namespace in it), "" where that cannot be told. `process_start` is when the process began, in clock ticks after the
    boot: pids are given out again.
    """

    host: str = ""
    host_id: str = ""
    pid: int = 0
    process_start: int = UNKNOWN


NOT_TOLD: Final = Whereabouts()


def liveness(process: Whereabouts, here: Whereabouts, start: int | None) -> Liveness:
    """Whether `process` still runs, as seen from the process `here`.

    `start` is when the process began that has the pid of `process` here and now: `None` where nobody has it, `UNKNOWN`
    where that cannot be told. Of another host nothing is ever concluded, nor of one that cannot be told from others.
    """
    is_same_host = process.host_id != "" and process.host_id == here.host_id
    if not is_same_host or process.pid <= 0 or UNKNOWN in (process.process_start, start):
        return Liveness.UNKNOWN
    return Liveness.ALIVE if start == process.process_start else Liveness.DEAD
