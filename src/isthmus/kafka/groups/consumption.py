"""Reports how far groups have read: descriptions, committed offsets, log ends, and the age of the next record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final

from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import (
    CommittedOffsets,
    committed_offsets,
    describe_groups,
    list_groups,
    merge_listings,
)
from isthmus.kafka.log.ages import record_times
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.consumption import GroupReport, GroupsReport, Position
from isthmus.model.kafka.group import GroupDescription, GroupState
from isthmus.model.kafka.log import LogRange
from isthmus.model.text.wording import format_count

AGES_MAX: Final = 2_000
"""Each age takes a request of its own: with more lagging positions ages are read for single groups only."""
_ENDS_S: Final = 2.0
_MS_PER_S: Final = 1000


async def group_reports(client: Client, names: Collection[str] = ()) -> GroupsReport:
    """Report all groups we may see, or those named. Needs DESCRIBE on the groups and their topics, READ for ages.

    A group that does not exist, or that we may not see, gets a problem.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    not_told: dict[str, str] = {}
    groups = tuple(names)
    if not groups:
        found = await list_groups(client)
        not_told.update({f"groups of broker {node}": error.message for node, error in found.errors.items()})
        groups = tuple(merge_listings(found))
    committed: CommittedOffsets[str]
    described, committed = await asyncio.gather(describe_groups(client, groups), committed_offsets(client, groups))
    keys = {key for positions in committed.values.values() for key in positions}
    ends = await log_ranges(client, keys, timeout_s=_ENDS_S)
    reports = [_report(group, described, committed, ends) for group in groups]
    lagging = sum(1 for report in reports for position in report.positions if position.lag_records)
    if lagging <= AGES_MAX:
        reports = list(await asyncio.gather(*(_with_ages(client, report) for report in reports)))
    else:
        not_told["lag_seconds"] = (
            f"{format_count(lagging, 'position lags', 'positions lag')}: ask for single groups to see for how long"
        )
    return GroupsReport(cluster=client.cluster.alias, groups=tuple(reports), not_told=not_told)


def _report(
    group: str,
    described: Outcomes[str, GroupDescription],
    committed: CommittedOffsets[str],
    ends: Outcomes[PartitionKey, LogRange],
) -> GroupReport:
    description = described.values.get(group)
    error = described.errors.get(group) or committed.errors.get(group)
    positions = committed.values.get(group, {})
    problem = None if error is None else error.message
    if description is not None and description.state is GroupState.DEAD and not positions:
        problem = "there is no such group, or we may not see it (DESCRIBE)"
    readers = {} if description is None else {key: m.client_id for m in description.members for key in m.assignment}
    return GroupReport(
        group=group,
        description=description,
        positions=tuple(
            _position(key, position.offset, ends, readers.get(key)) for key, position in sorted(positions.items())
        ),
        problem=problem,
    )


def _position(key: PartitionKey, offset: int, ends: Outcomes[PartitionKey, LogRange], member: str | None) -> Position:
    log = ends.values.get(key)
    if log is None:
        return Position(*key, offset, None, None, member=member, problem=ends.errors[key].message)
    problem = None
    if offset < log.start:
        problem = f"{format_count(log.start - offset, 'offset from here on is', 'offsets from here on are')} deleted"
    elif offset > log.end:
        problem = f"the log ends {format_count(offset - log.end, 'offset')} before it"
    return Position(*key, offset, log.start, log.end, member=member, problem=problem)


async def _with_ages(client: Client, report: GroupReport) -> GroupReport:
    """Add the age of the next record to each lagging position of the report."""
    lagging: Mapping[PartitionKey, int] = {
        (p.topic, p.partition): max(p.committed, p.log_start or 0) for p in report.positions if p.lag_records
    }
    if not lagging:
        return report
    times = await record_times(client, lagging)
    now_ms = time.time() * _MS_PER_S
    ages = {key: round(max(now_ms - timestamp, 0) / _MS_PER_S, 3) for key, timestamp in times.items()}
    positions = (p._replace(lag_seconds=ages.get((p.topic, p.partition))) for p in report.positions)
    return GroupReport(
        group=report.group, description=report.description, positions=tuple(positions), problem=report.problem
    )
