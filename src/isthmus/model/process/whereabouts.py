"""Identifies a process on a host, and whether it can still be there. No /proc is read here."""

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
    """One process: the name of its host, for people, and the facts that identify it.

    `host_id` names a set of processes that see one another by the same pids (one boot of one kernel, and one pid
    namespace in it), "" if it is unknown. `process_start` is the start time of the process, in clock ticks after the
    boot: pids are reused.
    """

    host: str = ""
    host_id: str = ""
    pid: int = 0
    process_start: int = UNKNOWN


NOT_TOLD: Final = Whereabouts()


def liveness(process: Whereabouts, here: Whereabouts, start: int | None) -> Liveness:
    """Return whether `process` still runs, as seen from the process `here`.

    `start` is the start time of the process that has the pid of `process` here and now: `None` if there is none,
    `UNKNOWN` if it cannot be read. Nothing is concluded about another host, or about one without an identity.
    """
    is_same_host = process.host_id != "" and process.host_id == here.host_id
    if not is_same_host or process.pid <= 0 or UNKNOWN in (process.process_start, start):
        return Liveness.UNKNOWN
    return Liveness.ALIVE if start == process.process_start else Liveness.DEAD
