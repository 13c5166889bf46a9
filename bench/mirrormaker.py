"""How MirrorMaker 2 is set up: with its defaults, and as well as its published tuning advice has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.pouring import Pour
from isthmus.local.properties import as_text

TASKS_MAX: Final = 4

# Beyond the codec, which follows the source's: the sums of the advice AWS, Strimzi and Cloudera publish.
TUNED: Final = {
    "source.consumer.max.poll.records": "50000",
    "source.consumer.fetch.max.bytes": "52428800",
    "source.consumer.max.partition.fetch.bytes": "33554432",
    "source.consumer.fetch.min.bytes": "1",
    "source.consumer.receive.buffer.bytes": "4194304",
    "target.producer.batch.size": "524288",
    "target.producer.linger.ms": "20",
    "target.producer.buffer.memory": "268435456",
    "target.producer.max.request.size": "8388608",
    "target.producer.send.buffer.bytes": "4194304",
    "target.producer.enable.idempotence": "true",
    "target.producer.max.in.flight.requests.per.connection": "5",
}


def properties(filling: Pour, servers: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """`mm2.properties` that copies one topic from the first alias in `servers` to the second.

    `settings` are those of `TUNED` or none; MirrorMaker 2 has one task per partition, at most `TASKS_MAX`.
    """
    source, target = servers
    flow = f"{source}->{target}"
    text = {
        "clusters": f"{source},{target}",
        **{f"{alias}.bootstrap.servers": at for alias, at in servers.items()},
        f"{flow}.enabled": "true",
        f"{flow}.topics": filling.topic,
        f"{target}->{source}.enabled": "false",
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        "tasks.max": str(min(filling.partitions, TASKS_MAX)),
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
    }
    sides = {"source": source, "target": target}
    for key, value in settings.items():
        side, _, rest = key.partition(".")
        text[f"{sides[side]}.{rest}"] = value
    if settings and filling.codec != "none":
        text[f"{target}.producer.compression.type"] = filling.codec
    return as_text(text)
