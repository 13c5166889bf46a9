"""How far away brokers are, by the network's round trip alone, and how requests adapt to it.

A slow answer does not prove distance: the broker may be overloaded, and larger requests would add to its load. So
distance is the shortest time that a small request took which waits for nothing. Queues, at a broker, at a processor or
in our own event loop, only ever add to it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from kafka.protocol.metadata import ApiVersionsRequest

from isthmus.engine.brokers.routes import Routes
from isthmus.errors import ClusterError

RESPONSE_BYTES: Final = 1 << 20
RESPONSE_BYTES_FAR: Final = 8 << 20
NEAR_S: Final = 0.005
_FAR_SOURCE_S: Final = 0.015
_SLOW_S: Final = 1.0
_WORTH_BYTES_PER_S: Final = 50_000_000
_ANSWERS_MIN: Final = 8
_LIKELY_S: Final = 0.15
_ASK_EVERY_S: Final = 0.05
ASK_SELDOM_S: Final = 5.0
_ANSWER_S: Final = 60.0
"""Longer than any request that this one may queue behind on its connection: a timeout would close that connection."""


class RoundTrip:
    """The round trip to a broker.

    One fast answer proves that a broker is near. To prove that it is far takes many answers, and the more the less far
    it is: on hosts with too few processors 27 answers in a row took 7 ms and more, and the next one did not. A broker
    counts as near until the opposite is certain.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._least_s = float("inf")

    def took(self, seconds: float) -> None:
        """Note that a small request was answered after so many seconds."""
        self._answers += 1
        self._least_s = min(self._least_s, seconds)

    @property
    def is_near(self) -> bool:
        """Whether the broker is certainly near."""
        return self._least_s <= NEAR_S

    @property
    def far_s(self) -> float:
        """The shortest round trip in seconds; 0 while the broker counts as near."""
        is_certain = self._answers >= max(_ANSWERS_MIN, (_LIKELY_S / max(self._least_s, NEAR_S)) ** 2)
        return self._least_s if is_certain and not self.is_near else 0.0


class Distances:
    """The round trips to the brokers that lead the partitions of `routes`, and `with_replicas` to their followers.

    `run()` is a coroutine of its own. A broker is measured until it is known to be near, every `seldom_s` if it is far,
    and no longer once it leads nothing.
    """

    def __init__(self, routes: Routes[Any], *, with_replicas: bool, seldom_s: float = ASK_SELDOM_S) -> None:
        self._routes = routes
        self._with_replicas = with_replicas
        self._seldom_s = seldom_s
        self._far_s: dict[int, float] = {}

    def far_s(self, node_id: int) -> float:
        """The shortest time in seconds that a request to this broker takes; 0 if it is near.

        With replicas: the time until all of them have acknowledged. They are measured too, since an answer of the
        leader does not show whether a replica is far or slow: where the leader is near, its distance to a replica is
        about ours.
        """
        nodes = self._routes.in_sync(node_id) if self._with_replicas else (node_id,)
        return max(self._far_s.get(node, 0.0) for node in nodes)

    async def run(self) -> None:
        """Measure until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for node_id in self._nodes() - self._far_s.keys():
                    self._far_s[node_id] = 0.0
                    group.create_task(self._measure(node_id, RoundTrip()))
                await self._routes.wait_for_news()

    def _nodes(self) -> set[int]:
        leaders = self._routes.leaders
        if not self._with_replicas:
            return leaders
        return {node_id for leader in leaders for node_id in self._routes.in_sync(leader)}

    async def _measure(self, node_id: int, trip: RoundTrip) -> None:
        while not trip.is_near:
            if node_id not in self._nodes():
                del self._far_s[node_id]
                return
            pause_s = self._seldom_s
            try:
                connection = await self._routes.client.connection(node_id)
                asked_at = time.monotonic()
                await connection.call(ApiVersionsRequest(max_version=0), timeout_s=_ANSWER_S)
            except ClusterError:
                # The readers and appenders that need this broker report the error.
                pass
            else:
                took_s = time.monotonic() - asked_at
                trip.took(took_s)
                self._far_s[node_id] = trip.far_s
                if not trip.far_s:
                    pause_s = max(_ASK_EVERY_S - took_s, 0)
            await asyncio.sleep(pause_s)


def worth_bytes(far_s: float) -> int:
    """Up to how many bytes per request joining batches costs less time than waiting for answers: 0 if near."""
    return int(far_s * _WORTH_BYTES_PER_S)


def next_bytes(bytes_max: int, took_s: float, far_s: float) -> int:
    """The size limit in bytes of the next answer of a source, after a well filled one that took `took_s`.

    A fetch session has one answer on its way at a time (KIP-227), so answers from far away have to be larger. On a
    slow line larger answers would only be late.
    """
    if far_s < _FAR_SOURCE_S / 2 or took_s > _SLOW_S * 2:
        return max(bytes_max // 2, RESPONSE_BYTES)
    if far_s > _FAR_SOURCE_S and took_s < _SLOW_S:
        return min(bytes_max * 2, RESPONSE_BYTES_FAR)
    return bytes_max
