"""Has Spark find the data source `isthmus` without `register`: it looks into every package named `pyspark_*`."""

from __future__ import annotations

from isthmus.spark.datasource import LogSource as DefaultSource

__all__ = ["DefaultSource"]
