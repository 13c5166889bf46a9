"""Time for whatever others may take as lapsed: it goes on while this machine sleeps.

Python's monotonic clock stands still in a suspended machine. Whoever measured a permission by it would wake up a minute
later and write, beside the successor that was told long ago to begin.
"""

from __future__ import annotations

import time
from typing import Final

# Only Linux has one; elsewhere the monotonic clock itself goes on, as on macOS.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lasting_s() -> float:
    """Seconds since some moment in the past, those spent asleep included. They only compare with each other."""
    return time.clock_gettime(_CLOCK)
