"""Permission to send the bytes of a request: checked when it is made, and again before any byte is sent."""

from __future__ import annotations

from collections.abc import Callable

from isthmus.errors import Unreachable

Permission = Callable[[], bool]
"""Returns whether bytes may be sent now."""


def not_permitted(cluster: str, where: str) -> Unreachable:
    """Build the error of a request that was given up without permission."""
    return Unreachable(
        f"a request to {where} was given up: writing is not allowed any more",
        cluster=cluster,
        hint="Isthmus writes only while it is sure that no other process does; it resumes when that is so again.",
    )
