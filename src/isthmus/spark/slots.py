"""The task slots of a Spark application, shared by all links."""

from __future__ import annotations

import asyncio


class TaskSlots:
    """`count` slots for `links` links: each gets as many groups of leases as fit while one slot stays free.

    In the free ones the next leases are started ahead. Where none is free, leases follow each other.
    """

    def __init__(self, count: int, links: int = 1) -> None:
        self.count = count
        self.groups_per_link = max((count - 1) // links, 1)
        spare = max(count - links * self.groups_per_link, 0)
        self.has_spare = spare > 0
        self.spare = asyncio.Semaphore(spare)
