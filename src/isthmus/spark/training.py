"""Make the class archive with which an embedded Spark starts in two thirds of the time.

Needed once per environment, for half a minute; `make` does it. Without it Spark works too, but starts more slowly:

    python -m isthmus.spark.training
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from isthmus.errors import HostError, IsthmusError
from isthmus.local.java import find_java
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import JVM_OPTIONS, QUICK_JVM, archive_options, class_archive, session

_END_S: Final = 120.0


def make_archive() -> None:
    """Run a Spark that does what leases and verification do, and let its JVM write the archive as it ends.

    :raises JavaMissing: There is no Java 17 or newer.
    :raises HostError: Spark does not start, or its JVM did not write the archive.
    """
    archive = class_archive(find_java())
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".train-") as draft:
        made, log = Path(draft, "spark.jsa"), Path(draft, "spark.log")
        recording = archive_options("ArchiveClassesAtExit", made)
        spark = session(SparkSettings(conf={JVM_OPTIONS: f"{QUICK_JVM} {recording}"}), log=log)
        spark.sparkContext.parallelize([0], 1).mapPartitions(list).collect()
        spark.range(10).mapInArrow(_same, "id long").groupBy("id").count().collect()
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        # The JVM ends with its input.
        gateway.proc.stdin.close()
        if _exit_code(gateway.proc) or not made.exists():
            raise HostError(f"Java wrote no class archive: {log.read_text()[-500:].strip()}", hint="Nothing needs it.")
        made.replace(archive)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    try:
        make_archive()
    except IsthmusError as error:
        sys.exit(f"Spark will start more slowly: {error}")
