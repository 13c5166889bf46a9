"""The lane engine alone in a process of its own: what Isthmus costs without Spark. Runs until it is ended.

python -m bench.engine '{"source": "host:port", "target": "host:port", "topic": ..., "profile": null}'
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import signal
import sys

from isthmus.lane.engine import Engine
from isthmus.lane.producer import ProducerIdentity, allocate_producer
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane
from isthmus.wire.client import Client


async def copy(source_servers: str, target_servers: str, name: str) -> None:
    """Copy a topic into the topic of the same name, which exists."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    source_cluster = Cluster(alias="source", bootstrap_servers=(source_servers,))
    target_cluster = Cluster(alias="target", bootstrap_servers=(target_servers,))
    async with Client(source_cluster) as source, Client(target_cluster) as target:
        producer = ProducerIdentity(
            producer_id=await allocate_producer(target), marker_producer_id=await allocate_producer(target)
        )
        source_topic = (await source.metadata([name])).topics[name]
        target_topic = (await target.metadata([name])).topics[name]
        lanes = [
            Lane(
                source_topic=name,
                source_topic_id=source_topic.topic_id,
                target_topic=name,
                target_topic_id=target_topic.topic_id,
                partition=partition.partition,
            )
            for partition in source_topic.partitions
        ]
        engine = Engine(source=source, target=target, producer=producer, link="bench", abandoned=False)
        await engine.start(lanes)
        while not stopped.is_set() and engine.failure is None:
            await asyncio.wait([asyncio.ensure_future(stopped.wait())], timeout=0.5)
        await engine.stop()
        if engine.failure is not None:
            raise engine.failure


def main() -> None:
    task = json.loads(sys.argv[1])
    profile = cProfile.Profile()
    if task["profile"]:
        profile.enable()
    asyncio.run(copy(task["source"], task["target"], task["topic"]))
    if task["profile"]:
        profile.disable()
        profile.dump_stats(task["profile"])


if __name__ == "__main__":
    main()
