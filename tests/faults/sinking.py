"""A program with a query that writes into a sink what is in files: two of them a batch, each a task of its own.

python -m tests.faults.sinking CONFIG TOPIC FOLDER MASTER [OPTION=VALUE ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session

FILES_PER_BATCH = 2


def main(config: str, topic: str, folder: Path, master: str, options: dict[str, str]) -> None:
    """Write all that there is, then end."""
    # Spark gives each file a task only if there are slots for as many.
    conf = {"spark.sql.files.openCostInBytes": "4194304", "spark.task.maxFailures": "4"}
    spark = session(SparkSettings(master=master, conf=conf), log=folder / "spark.log")
    read = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", FILES_PER_BATCH)
    writing = read.json(str(folder / "input")).writeStream.format("isthmus")
    place = {"config": config, "cluster": "west", "topic": topic, "checkpointLocation": str(folder / "checkpoint")}
    query = writing.options(**{**place, **options}).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    given = dict(each.split("=", 1) for each in sys.argv[5:])
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], given)
