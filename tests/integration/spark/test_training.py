"""The class archive of an embedded Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from isthmus.local.java import find_java
from isthmus.spark.session import class_archive

pytestmark = pytest.mark.integration


# A process of its own: another Spark may have been started here before, by somebody else.
STARTED = """
from pathlib import Path
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session
spark = session(SparkSettings())
print(Path("/proc", str(spark.sparkContext._gateway.proc.pid), "maps").read_text())
spark.stop()
"""


def test_the_jvm_has_mapped_the_archive() -> None:
    """Where `make` has made an archive, the JVM of an embedded Spark lives on it: it did not put it aside as unfit."""
    archive = class_archive(find_java())
    if not archive.exists():
        pytest.skip("made by `make test` (python -m isthmus.spark.training)")
    started = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True, timeout=200)
    assert str(archive) in started.stdout
