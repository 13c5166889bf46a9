"""How all links of a fabric stand, as programs and notebooks get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.rows import PartitionRow, partition_rows, progress_table
from isthmus.model.text.shown import ShortTable, ShownAsTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FabricStatus(ShownAsTable, tuple[LinkProgress, ...]):
    """How links stand, one after the other; shown it is a table of their topics."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return its JSON form: the `links`, as `isthmus status -o json` has them."""
        return {"links": [link.as_dict() for link in self]}

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The status as a DataFrame: the columns of `PartitionRow`, a row for each partition, and one for each topic or
        link that has none.
        """
        from isthmus.spark.frames import frame_of

        return frame_of(spark, PartitionRow, partition_rows(self))

    def short_table(self) -> ShortTable:
        return progress_table(self)
