"""The access rights a link needs, and which of them are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.cluster.brokers import Operation, Operations
from isthmus.model.findings import Finding, Level
from isthmus.model.rights import grant, listed, on_cluster, on_topic
from isthmus.model.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One right and what it is needed for; without those that are no `ERROR` mirroring works."""

    operation: Operation
    level: Level
    purpose: str


SOURCE_TOPIC: Final = (
    Need(operation=Operation.READ, level=Level.ERROR, purpose="copy its records"),
    Need(
        operation=Operation.DESCRIBE_CONFIGS,
        level=Level.ERROR,
        purpose="see how its records are kept",
    ),
)
TARGET_TOPIC: Final = (
    Need(operation=Operation.WRITE, level=Level.ERROR, purpose="write its records"),
    Need(
        operation=Operation.READ,
        level=Level.ERROR,
        purpose="look at the log's end after a broken connection, and verify",
    ),
    Need(
        operation=Operation.DESCRIBE_CONFIGS,
        level=Level.ERROR,
        purpose="see whether it takes the batches as they are",
    ),
    Need(
        operation=Operation.DELETE,
        level=Level.WARN,
        purpose="delete what fills the offsets before the source's log start",
    ),
    Need(
        operation=Operation.ALTER,
        level=Level.WARN,
        purpose="add partitions when the source adds some",
    ),
    Need(
        operation=Operation.ALTER_CONFIGS,
        level=Level.WARN,
        purpose="have its configuration follow the source, and set the cleanup policy once offsets are filled",
    ),
)
LEDGER_TOPIC: Final = TARGET_TOPIC[:2]
TARGET_CLUSTER: Final = (
    Need(
        operation=Operation.DESCRIBE_CONFIGS,
        level=Level.WARN,
        purpose="see producer.id.expiration.ms",
    ),
    Need(
        operation=Operation.ALTER,
        level=Level.WARN,
        purpose="write control records for transactions and holes itself, exactly once; without it coordinators do, "
        "more slowly and sometimes twice",
    ),
)


def topic_findings(
    subject: str, cluster: str, needs: tuple[Need, ...], operations: Mapping[str, Operations]
) -> Iterator[Finding]:
    """One finding for each right that is missing on some topics, or one that tells all is well.

    `operations` are by topic what may be done to it.
    """
    complete = True
    for need in needs:
        lacking = sorted(name for name, allowed in operations.items() if need.operation not in allowed)
        if lacking:
            complete = False
            yield Finding(
                level=need.level,
                subject=subject,
                check="rights",
                message=f"{need.operation.name} is missing at {cluster} on {listed(lacking)}: needed to {need.purpose}",
                hint=grant(on_topic(need.operation.name, *lacking), cluster),
            )
    if complete and operations:
        message = f"all rights on {counted(len(operations), 'topic')} of {cluster}"
        yield Finding(level=Level.OK, subject=subject, check="rights", message=message)


def cluster_findings(subject: str, cluster: str, operations: Operations) -> Iterator[Finding]:
    """A finding for each right on the target cluster itself that is missing."""
    for need in TARGET_CLUSTER:
        if need.operation not in operations:
            yield Finding(
                level=need.level,
                subject=subject,
                check="rights",
                message=f"{need.operation.name} on the cluster {cluster} is missing: needed to {need.purpose}",
                hint=grant(on_cluster(need.operation.name), cluster),
            )
