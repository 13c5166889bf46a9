"""Python workers of Spark for jobs that call Python functions of transforms."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from isthmus.model.links.transform import Transform

if TYPE_CHECKING:
    from pyspark import SparkContext

_FUNCTIONS: Final = "ISTHMUS_FUNCTIONS"
_BUILDING: Final = threading.Lock()


@contextlib.contextmanager
def function_workers(spark: SparkContext, transforms: Iterable[Transform]) -> Iterator[None]:
    """Have jobs that are built within this run in Python workers of their own for these Python functions: a worker that
    Spark reuses has loaded their modules before, and would go on with what they did then.
    """
    functions = sorted({each.digest for each in transforms if each.python is not None})
    with _BUILDING:
        if functions:
            spark.environment[_FUNCTIONS] = hashlib.sha256("".join(functions).encode()).hexdigest()
        try:
            yield
        finally:
            spark.environment.pop(_FUNCTIONS, None)
