"""Records at a source that wait for open transactions: since when, and for whose."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus.cluster.aborting import transactions_holding
from isthmus.errors import ClusterError
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.state import AGED_S
from isthmus.model.transactions import OpenTransaction
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

ASKED_MAX: Final = 200
"""Of so many partitions it is asked whose transactions they wait for."""
_ANSWER_S: Final = 3.0


class _Since(NamedTuple):
    """Where a source's stable records have ended, and since when (monotonic s)."""

    stable_end: int
    at: float


class TransactionWatch:
    """Which lanes wait for open transactions, by their reports, and for which: asked of brokers no oftener than every
    ten seconds, and only of what has waited for so long.
    """

    def __init__(self, source: Client) -> None:
        self.transactions: tuple[OpenTransaction, ...] = ()
        self._source = source
        self._since: dict[LaneKey, _Since] = {}
        self._asked_at = float("-inf")

    def ages_s(self, now: float) -> dict[LaneKey, float]:
        """For how long (s) each lane that waits has waited, as far as it was seen here."""
        return {key: now - since.at for key, since in self._since.items()}

    def take(self, reports: Iterable[LaneReport], now: float) -> None:
        """How the lanes stand by now."""
        self._since = {
            report.key: known
            if (known := self._since.get(report.key)) is not None and known.stable_end == report.source_end
            else _Since(report.source_end, now)
            for report in reports
            if 0 <= report.source_end < report.source_log_end
        }

    async def look_when_due(
        self, reports: Mapping[LaneKey, LaneReport], sources: Mapping[TargetTopic, SourceTopic]
    ) -> None:
        """Ask for whose transactions lanes wait; what is not answered is left unknown."""
        now = time.monotonic()
        self.take(reports.values(), now)
        late = [key for key, since in self._since.items() if now - since.at >= AGED_S and key.topic in sources]
        if not late:
            self.transactions = ()
        elif now - self._asked_at >= AGED_S:
            self._asked_at = now
            logs: dict[PartitionKey, LogRange] = {
                (sources[key.topic], key.partition): LogRange(0, reports[key].source_end, reports[key].source_log_end)
                for key in late[:ASKED_MAX]
            }
            self.transactions = await holders(self._source, logs)


async def holders(source: Client, logs: Mapping[PartitionKey, LogRange]) -> tuple[OpenTransaction, ...]:
    """The transactions for which the ends of these logs wait; none where brokers do not tell soon."""
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(_ANSWER_S):
            return await transactions_holding(source, logs)
    return ()
