"""Whether the bytes of a request may leave: asked when it is made, and again before any of them does."""

from __future__ import annotations

from collections.abc import Callable

from isthmus.errors import Unreachable

Permission = Callable[[], bool]
"""Whether bytes may leave now."""


def not_permitted(cluster: str, where: str) -> Unreachable:
    """Why a request to a broker was given up."""
    return Unreachable(
        f"a request to {where} was given up: writing is not allowed any more",
        cluster=cluster,
        hint="Isthmus writes only while it is sure that nobody else does; it goes on when that is so again.",
    )
