"""Raise errors of Spark's workers again in the driver, with their own types."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from isthmus.errors import (
    AuthenticationFailed,
    ClusterError,
    ConfigError,
    NotAuthorized,
    Unreachable,
    UnsupportedByBroker,
)

# The end of a traceback that came from a worker as text.
_RAISED: Final = re.compile(r"^isthmus\.errors\.(\w+): (.*)$", re.MULTILINE)
_SAME: Final = (AuthenticationFailed, ConfigError, NotAuthorized, Unreachable, UnsupportedByBroker)


@contextlib.contextmanager
def our_errors() -> Iterator[None]:
    """Raise our own error where a worker raised one; other errors of Spark are raised unchanged.

    :raises ClusterError: A cluster could not be read by a worker.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raised = _RAISED.findall(str(error))
        if not raised:
            raise
        name, message = raised[-1]
        hint = "It was raised by a Spark worker: can the executors reach the cluster, too?"
        kind = next((kind for kind in _SAME if kind.__name__ == name), ClusterError)
        raise kind(message, hint=hint) from error
