"""The Python daemon of an embedded Spark: it has loaded what leases need before it forks their workers.

Spark starts it in place of `pyspark.daemon` (`spark.python.daemon.module`), with the same arguments and pipes.
Otherwise each worker would load all of it, for a second of processor time, and keep a copy of its own in memory.
"""

from __future__ import annotations

import os
from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    # The manager does this too, but later: until then a Ctrl-C would be for this process as well.
    os.setpgid(0, 0)
    import_module("isthmus.spark.leases.task")
    daemon.manager()
