"""A program with a query that is killed in the middle of its second batch, or not at all.

    python -m tests.integration.spark.streaming CONFIG TOPIC FOLDER driver|jvm|nobody

The rows of each batch are written into a file of FOLDER, before it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session

KILLED_IN = 1


def main(config: str, topic: str, folder: Path, killed: str) -> None:
    """Read what is there, ten offsets a batch."""
    spark = session(SparkSettings(master="local[2]"), log=folder / "spark.log")
    gateway: Any = spark.sparkContext._gateway

    def take(frame: DataFrame, batch: int) -> None:
        rows = [
            (row.partition, row.offset, bytes(row.value).decode())
            for row in frame.orderBy("partition", "offset").collect()
        ]
        name = "first" if killed != "nobody" else "again"
        (folder / f"rows-{batch}-{name}.json").write_text(json.dumps(rows))
        if batch == KILLED_IN and killed != "nobody":
            os.kill(os.getpid() if killed == "driver" else gateway.proc.pid, signal.SIGKILL)

    read = spark.readStream.format("isthmus").options(config=config, cluster="east", subscribe=topic)
    stream = read.options(startingOffsets="earliest", maxOffsetsPerTrigger="10").load()
    writing = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
