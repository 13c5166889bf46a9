"""The program of the sink: `python -m soak.changed.sinking TOLD`, which is JSON (see `soak.mirrors.sink`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.functions import create_map, lit

from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session


def main(told: dict[str, Any]) -> int:
    """Read and write until the query fails; 1 with what it said then."""
    conf = {"spark.task.maxFailures": "4"}
    spark = session(SparkSettings(master=told["master"], conf=conf), log=Path(told["log"]))
    topics: dict[str, str] = told["topics"]
    reading = spark.readStream.format("isthmus").options(config=told["config"], cluster="source")
    rows = reading.options(subscribe=",".join(topics), startingOffsets="earliest").load()
    called = create_map(*(lit(name) for pair in topics.items() for name in pair))
    rows = rows.withColumn("topic", called[rows.topic])
    writing = rows.writeStream.format("isthmus").options(config=told["config"], cluster="target")
    try:
        writing.option("checkpointLocation", told["checkpoint"]).start().awaitTermination()
    except PySparkException as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
