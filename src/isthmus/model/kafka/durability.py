"""What may be lost, or has to wait, when one more broker fails: named findings over all topics (seeds 003 and 004)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.partitions import Condition, PartitionState
from isthmus.model.text.wording import first_few, format_count

OFFSETS_TOPIC: Final = "__consumer_offsets"
_BROKERS_MIN: Final = 3
_NAMED_MAX: Final = 5
_COMMIT_TIMEOUT: Final = "offsets.commit.timeout.ms"


def margin_findings(subject: str, partitions: Collection[PartitionState], brokers: int) -> Iterator[Finding]:
    """Too few brokers, one replica, and a `min.insync.replicas` that protects from nothing, or leaves no margin."""
    if brokers < _BROKERS_MIN:
        yield Finding(
            level=Level.WARN,
            subject=subject,
            check="brokers",
            message=f"{format_count(brokers, 'broker')}: with fewer than three, none may fail without producers having "
            "to wait, or records being in one place only",
            hint="Add brokers, and then replicas: isthmus cluster reassign "
            f"{subject} --plan --replicas 3 --to plan.json",
        )
    yield from _topics(
        subject,
        "one-replica",
        [state for state in partitions if len(state.replicas) == 1],
        "have one replica: while its broker is away clients cannot read or write them, and their records are lost "
        "with its disk",
        f"Run: isthmus cluster reassign {subject} --plan --replicas 3 --to plan.json",
    )
    yield from _topics(
        subject,
        "min-isr-one",
        _where(partitions, lambda least, replicas: least == 1 < replicas),
        "have several replicas and min.insync.replicas 1: a record that acks=all has acknowledged may be on one broker "
        "only, and lost with it",
        "Set min.insync.replicas to one less than there are replicas.",
    )
    yield from _topics(
        subject,
        "no-margin",
        _where(partitions, lambda least, replicas: 1 < least == replicas),
        "need all their replicas in sync (min.insync.replicas): producers with acks=all are refused as soon as one "
        "broker is away",
        "Set min.insync.replicas to one less than there are replicas, or add a replica.",
    )


def offsets_findings(
    subject: str, partitions: Iterable[PartitionState], policy: str | None, settings: Iterable[BrokerSetting]
) -> Iterator[Finding]:
    """Yield findings about commits of consumer groups; `policy` is the `cleanup.policy` of their topic, if known."""
    own = [state for state in partitions if state.topic == OFFSETS_TOPIC]
    where = f"{subject}/{OFFSETS_TOPIC}"
    if own and policy is not None and "compact" not in policy.split(","):
        yield Finding(
            level=Level.ERROR,
            subject=where,
            check="offsets topic",
            message=(
                f"cleanup.policy is {policy}: positions of groups are deleted by age, and their consumers start as "
                "auto.offset.reset sets"
            ),
            hint="Set cleanup.policy=compact on it.",
        )
    timeouts = ", ".join(f"{setting.value} ms" for setting in settings if setting.name == _COMMIT_TIMEOUT)
    suffering = (
        (
            Condition.OFFLINE,
            "without a leader: groups in them have no coordinator, so that none of their consumers joins, commits or "
            "learns its position (COORDINATOR_NOT_AVAILABLE)",
        ),
        (
            Condition.UNDER_MIN_ISR,
            "with fewer in-sync replicas than min.insync.replicas: commits of groups in them are refused "
            f"(COORDINATOR_NOT_AVAILABLE) after offsets.commit.timeout.ms{f' ({timeouts})' if timeouts else ''}; "
            "consumers go on reading, and read again from the last commit if they fail",
        ),
    )
    for condition, message in suffering:
        found = [state for state in own if condition in state.conditions]
        if found:
            yield Finding(
                level=Level.ERROR,
                subject=where,
                check="offsets topic",
                message=f"{format_count(len(found), 'partition')} of {len(own)} {message}",
                hint=f"Groups with coordinators and partitions: isthmus cluster groups {subject} -o wide",
            )


def _where(partitions: Iterable[PartitionState], applies: Callable[[int, int], bool]) -> list[PartitionState]:
    return [
        state
        for state in partitions
        if state.min_insync_replicas is not None and applies(state.min_insync_replicas, len(state.replicas))
    ]


def _topics(subject: str, check: str, found: Sequence[PartitionState], message: str, hint: str) -> Iterator[Finding]:
    topics = sorted({state.topic for state in found})
    if not topics:
        return
    yield Finding(
        level=Level.WARN,
        subject=subject,
        check=check,
        message=f"{format_count(len(found), 'partition')} of {format_count(len(topics), 'topic')} "
        f"({first_few(topics, _NAMED_MAX)}) {message}",
        hint=hint,
    )
