"""A clock for permissions that may lapse: it goes on while this machine sleeps.

Python's monotonic clock stops in a suspended machine. A process that measured its permission by it would wake up a
minute later and write, although its successor has already begun.
"""

from __future__ import annotations

import time
from typing import Final

# Only Linux has it; elsewhere, as on macOS, the monotonic clock itself goes on.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lasting_s() -> float:
    """Seconds since an arbitrary moment, including time asleep. Values only compare with each other."""
    return time.clock_gettime(_CLOCK)
