"""The class archive of an embedded Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.cluster.local.java import find_java
from isthmus.spark.session import class_archive

pytestmark = pytest.mark.integration


def test_the_jvm_has_mapped_the_archive(spark: SparkSession) -> None:
    """Where `make` has made an archive, the JVM of an embedded Spark lives on it: it did not put it aside as unfit."""
    archive = class_archive(find_java())
    if not archive.exists():
        pytest.skip("made by `make test` (python -m isthmus.spark.training)")
    gateway: Any = spark.sparkContext._gateway
    assert str(archive) in Path("/proc", str(gateway.proc.pid), "maps").read_text()
