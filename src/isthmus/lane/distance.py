"""How far away brokers are, by the network's round trip alone, and what is worth doing about it.

A slow answer is not a far one: it may come from a broker that has too much to do, and would only get more. So distance
is the least that a small request took which waits for nobody. Whatever queues, at a broker, at a processor or in our
own loop, only ever adds to it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from kafka.protocol.metadata import ApiVersionsRequest

from isthmus.errors import ClusterError
from isthmus.lane.routes import Routes

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
"""Longer than anything a question may stand behind on its connection, which it shall not break off."""


class RoundTrip:
    """The way to a broker and back.

    One soon answer proves that a broker is near. That it is far takes many, and many more the less far it is: on hosts
    with processes waiting for processors 27 answers in a row took 7 ms and more, and the next one did not. Until it is
    certain a broker counts as near.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._least_s = float("inf")

    def took(self, seconds: float) -> None:
        """A small request was answered after so long."""
        self._answers += 1
        self._least_s = min(self._least_s, seconds)

    @property
    def is_near(self) -> bool:
        """Whether that is certain."""
        return self._least_s <= NEAR_S

    @property
    def far_s(self) -> float:
        """The least it takes; 0 while the broker counts as near."""
        is_certain = self._answers >= max(_ANSWERS_MIN, (_LIKELY_S / max(self._least_s, NEAR_S)) ** 2)
        return self._least_s if is_certain and not self.is_near else 0.0


class Distances:
    """The round trips to the brokers that lead what is known to `routes`, and `with_replicas` to their followers.

    A coroutine of its own: `run()`. A broker is asked until it is known to be near, every `seldom_s` if it is far,
    and no longer once it leads nothing.
    """

    def __init__(self, routes: Routes, *, with_replicas: bool, seldom_s: float = ASK_SELDOM_S) -> None:
        self._routes = routes
        self._with_replicas = with_replicas
        self._seldom_s = seldom_s
        self._far_s: dict[int, float] = {}

    def far_s(self, node_id: int) -> float:
        """The least that a request to this broker takes; 0 if it is near.

        With replicas: one that all of them have to acknowledge. They are asked as well, since no request to the leader
        tells what is far and what is only slow there: where the leader is near, its way to a replica is about ours.
        """
        nodes = self._routes.in_sync(node_id) if self._with_replicas else (node_id,)
        return max(self._far_s.get(node, 0.0) for node in nodes)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for node_id in self._nodes() - self._far_s.keys():
                    self._far_s[node_id] = 0.0
                    group.create_task(self._measure(node_id, RoundTrip()))
                await self._routes.heard()

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
                # Who needs that broker hears of it too.
                pass
            else:
                took_s = time.monotonic() - asked_at
                trip.took(took_s)
                self._far_s[node_id] = trip.far_s
                if not trip.far_s:
                    pause_s = max(_ASK_EVERY_S - took_s, 0)
            await asyncio.sleep(pause_s)


def worth_bytes(far_s: float) -> int:
    """For how many bytes in a request joining batches costs less than waiting does: none if the target is near."""
    return int(far_s * _WORTH_BYTES_PER_S)


def next_bytes(bytes_max: int, took_s: float, far_s: float) -> int:
    """How large the answer of a source so far away may be, after one that was well filled and took so long.

    There is one on its way at a time (KIP-227), so what comes from far away has to come in larger ones. Where the line
    is narrow they would only be late.
    """
    if far_s < _FAR_SOURCE_S / 2 or took_s > _SLOW_S * 2:
        return max(bytes_max // 2, RESPONSE_BYTES)
    if far_s > _FAR_SOURCE_S and took_s < _SLOW_S:
        return min(bytes_max * 2, RESPONSE_BYTES_FAR)
    return bytes_max
