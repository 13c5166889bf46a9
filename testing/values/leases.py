"""Leases and the Spark jobs that would run them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane
from isthmus.model.link import Limits
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.spark.leases.lease import LeaseSpec, LinkContext

CONTEXT = LinkContext(
    link="l",
    source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
    target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
    producer=ProducerIdentity(producer_id=1, marker_producer_id=2),
    limits=Limits(),
)


def lane(number: int) -> Lane:
    """One of many lanes."""
    return Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=number,
    )


class Jobs:
    """Spark, where a job goes on until a test ends it. `specs` are the leases that were started, in order."""

    def __init__(self) -> None:
        self.specs: list[LeaseSpec] = []
        self.futures: list[asyncio.Future[tuple[Receipt, ...]]] = []

    def start(self, _: object, specs: Sequence[LeaseSpec], *__: object) -> asyncio.Future[tuple[Receipt, ...]]:
        self.specs += specs
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def nothing(self, *_: object) -> bool:
        return True

    def end(self) -> None:
        for spec, future in zip(self.specs, self.futures, strict=True):
            if not future.done():
                future.set_result((Receipt(slot=spec.slot, generation=spec.generation, ending=Ending.REVOKED),))
