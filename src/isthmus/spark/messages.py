"""What Spark's JVM says, passed on to our stderr: above a live table, not into it, and never among results."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Final

# Spark's launcher adds the module whatever is configured, and every JVM says so while it boots.
_NOISE: Final = b"WARNING: Using incubator modules: "
_LAST_WORDS_S: Final = 2.0


@contextlib.contextmanager
def passing_on() -> Iterator[BinaryIO]:
    """A file to start a process with: what the process writes is passed on for as long as it lives.

    If the block fails all that was said until then is on stderr when this raises.
    """
    reading, writing = os.pipe()
    relay = threading.Thread(target=_pass_on, args=(reading,), name="spark-messages", daemon=True)
    relay.start()
    try:
        with open(writing, "wb") as output:
            yield output
    except BaseException:
        # The process may live on, and then there is no end to wait for.
        relay.join(_LAST_WORDS_S)
        raise


def _pass_on(reading: int) -> None:
    with open(reading, "rb") as said:
        for line in said:
            # `sys.stderr` is another one while a table is shown live; it is closed when the interpreter ends.
            if not line.startswith(_NOISE) and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
