"""The ids without transactions that leaders know in a topic, by kafka-python: `python -m soak.gateway.producers SERVERS
TOPIC PARTITIONS`.

A process of its own: kafka-python's clients do not work beside Isthmus, which reads some messages in its own way.
"""

from __future__ import annotations

import json
import sys

from kafka import KafkaAdminClient, TopicPartition


def main() -> None:
    """Print them as a JSON array."""
    servers, topic, partitions = sys.argv[1:]
    admin = KafkaAdminClient(bootstrap_servers=servers.split(","), bootstrap_timeout_ms=120_000)
    told = admin.describe_producers([TopicPartition(topic, each) for each in range(int(partitions))])
    admin.close()
    found = {
        each.producer_id for state in told.values() for each in state.active_producers if each.coordinator_epoch < 0
    }
    print(json.dumps(sorted(found)))  # noqa: T201


if __name__ == "__main__":
    main()
