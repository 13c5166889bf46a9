"""Kafka's own command line tools: an independent opinion."""

from __future__ import annotations

import subprocess
from typing import Final

from isthmus.local.jvm import jvm_for
from isthmus.local.locks import LockName

_HEAP_MB: Final = 256


def kafka_tool(
    main_class: str, *arguments: str, timeout_s: float = 180.0, of: LockName = "tools-4.4.0"
) -> subprocess.CompletedProcess[str]:
    """Run a tool of a Kafka and return what it printed; its exit code is for you to judge.

        kafka_tool("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", servers)

    Others are `consumer.ConsoleConsumer`, `DumpLogSegments`, `TopicCommand`, `AclCommand`,
    `TransactionsCommand`, `DeleteRecordsCommand`, `LeaderElectionCommand`, `ProducerPerformance`
    and `consumer.group.ConsumerGroupCommand`, all below `org.apache.kafka.tools`.

    :raises JavaMissing: There is no Java 17 or newer.
    :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
    :raises subprocess.TimeoutExpired: The tool ran longer than `timeout_s`.
    """
    jvm = jvm_for(of)
    return subprocess.run(
        jvm.command(main_class, *arguments, heap_mb=_HEAP_MB),
        env=jvm.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
