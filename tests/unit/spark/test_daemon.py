"""What the daemon of an embedded Spark has when it forks workers."""

from __future__ import annotations

import subprocess
import sys


def test_the_daemon_has_loaded_leases_and_started_no_thread() -> None:
    """A thread would not be there in a worker, and its locks might be held for ever; libraries of Arrow start some."""
    looked = (
        "import os, sys, isthmus.spark.daemon; from isthmus.spark.leases import task; "
        "print(len(os.listdir('/proc/self/task')), *{'pyarrow', 'pandas', 'numpy'}.intersection(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1"]
