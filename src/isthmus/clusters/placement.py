"""The distances of both clusters of a link from this host, and the better place to run the link."""

from __future__ import annotations

import time
from typing import Final

from isthmus.kafka.client import Client
from isthmus.model.kafka.findings import Finding, Level

_ASKED: Final = 5
_MS_PER_S: Final = 1000
_FAR_MS: Final = 5.0
"""Longer round trips (ms) slow the link down, as appends wait for each other's answers."""


async def round_trip_ms(client: Client) -> float:
    """Measure the shortest time of some small requests, in milliseconds: queues can only add to it.

    :raises ClusterError: The cluster does not answer.
    """
    found: list[float] = []
    for _ in range(_ASKED):
        begun = time.monotonic()
        await client.metadata([])
        found.append((time.monotonic() - begun) * _MS_PER_S)
    return min(found)


def placement_finding(link: str, source: str, target: str, source_ms: float, target_ms: float) -> Finding:
    """Whether this host is on the better side: reading ahead hides a round trip to the source, while appends to a
    partition wait for one another's answers.
    """
    distances = f"{source} is {source_ms:.1f} ms away, {target} {target_ms:.1f} ms"
    if target_ms > source_ms + _FAR_MS:
        return Finding(
            level=Level.WARN,
            subject=link,
            check="distance",
            message=f"{distances}: the target is the far one",
            hint=f"Run the link beside {target}: reading ahead hides the way to the source, appends wait for answers.",
        )
    return Finding(level=Level.OK, subject=link, check="distance", message=distances)
