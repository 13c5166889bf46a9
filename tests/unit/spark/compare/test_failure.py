"""Errors of Spark's workers become errors of the driver."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.spark.compare.failure import our_errors

TRACEBACK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "reading.py", line 1, in read
{}
 SQLSTATE: 38000
"""


def test_error_of_a_worker_is_raised_as_what_it_was() -> None:
    """The last of our errors in the traceback is the one that counts, and keeps its exit code."""
    told = TRACEBACK.format(
        "isthmus.errors.Unreachable: east is gone\n\nisthmus.errors.NotAuthorized: west does not allow reading x"
    )
    with pytest.raises(NotAuthorized, match="west does not allow reading x"), our_errors():
        raise PySparkException(told)


def test_error_that_needs_more_than_a_message_is_a_cluster_error() -> None:
    """A broker's refusal comes through as a sentence."""
    told = TRACEBACK.format("isthmus.errors.BrokerRefused: east refused reading x: CORRUPT_MESSAGE")
    with pytest.raises(ClusterError, match="CORRUPT_MESSAGE"), our_errors():
        raise PySparkException(told)


def test_other_errors_stay() -> None:
    """What is Spark's own is not dressed up as ours."""
    with pytest.raises(PySparkException, match="out of memory"), our_errors():
        raise PySparkException("out of memory")
