"""How the records of a lane are changed on their way: values for the driver, its executors and the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OnError(enum.StrEnum):
    """The policy for a record that its transform cannot change."""

    STOP = "stop"
    """The lane stops before it, and tries again every few seconds."""
    SKIP = "skip"
    """It is left out and counted."""
    DEAD_LETTER = "dead-letter"
    """It is set aside before the lane goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transform that lanes name by its `id`, which is another one if the transform changes: lanes then go on with the
    new one from a stated offset. `function` is a Python function, as `module:function`.
    """

    id: str
    function: str
