"""Expressions in an embedded Spark, on records that Java has trouble with."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Portion
from isthmus.model.links.transform import Transform
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.transforms.trial import try_expressions
from testing.values.leases import lane

pytestmark = pytest.mark.integration

REGEX = Prepared(Transform(where="CAST(value AS STRING) RLIKE '^(a|b)*$'"))


def portion(value: bytes) -> Portion:
    return Portion(lane(0), [Record(0, 0, None, value, [])], [False])


def test_a_regular_expression_on_a_long_text_ends_no_jvm(spark: SparkSession) -> None:
    """Java's call themselves for each character. 100,000 are fine; far more end what is evaluated, and nothing else."""
    fine = portion(b"ab" * 50_000)
    assert try_expressions(spark, REGEX, [fine], {}).outcomes == [fine.records]
    with pytest.raises(Exception, match="StackOverflowError"):
        try_expressions(spark, REGEX, [portion(b"ab" * 5_000_000)], {})
    assert try_expressions(spark, REGEX, [fine], {}).outcomes == [fine.records]
