"""Mirrors from inside a Spark application: spark-submit examples/spark_submit.py isthmus.yaml

Isthmus has to be installed for the Python of the driver and of the executors. Leave out `until` to
go on for ever; then SIGTERM ends the application in good order.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import isthmus

spark = SparkSession.builder.appName("isthmus").getOrCreate()
outcome = isthmus.spark.run(spark, sys.argv[1], until="caught-up")
spark.stop()
sys.exit(outcome.exit_code)
