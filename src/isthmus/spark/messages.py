"""Messages of Spark's JVM, passed on to our stderr: above a live table, not into it, and never among results."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Final

# Spark's launcher always adds the module, and every JVM prints a warning for it at its start.
_NOISE: Final = b"WARNING: Using incubator modules: "
_LAST_WORDS_S: Final = 2.0


@contextlib.contextmanager
def passing_on() -> Iterator[BinaryIO]:
    """Open a file for the output of a process: its output is passed on for as long as the process lives.

    If the block fails all output until then is on stderr when this raises.
    """
    reading, writing = os.pipe()
    relay = threading.Thread(target=_pass_on, args=(reading,), name="spark-messages", daemon=True)
    relay.start()
    try:
        with open(writing, "wb") as output:
            yield output
    except BaseException:
        # The process may live on: do not wait for its end.
        relay.join(_LAST_WORDS_S)
        raise


def _pass_on(reading: int) -> None:
    with open(reading, "rb") as messages:
        for line in messages:
            # `sys.stderr` is replaced while a table is shown live, and closed when the interpreter ends.
            if not line.startswith(_NOISE) and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
