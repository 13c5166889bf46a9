"""Transactions of a source: since when records wait for open ones, and for whose; and whose lanes copy."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.aborting import transactions_holding
from isthmus.kafka.transactions.open import transactional_ids
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.links.promotion import TornTransaction
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic
from isthmus.model.state import AGED_S

ASKED_MAX: Final = 200
"""Of so many partitions it is asked whose transactions they wait for."""
_ANSWER_S: Final = 3.0
_NAMES_MAX: Final = 500
_NAME_MAX: Final = 300
"""So many transactional ids of so many characters are remembered."""


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
            if (known := self._since.get(report.key)) is not None and known.stable_end == report.decided_end
            else _Since(report.decided_end, now)
            for report in reports
            if 0 <= report.decided_end < report.source_log_end
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
            logs: dict[SourceTopicPartition, LogRange] = {
                (sources[key.topic], key.partition): LogRange(0, reports[key].decided_end, reports[key].source_log_end)
                for key in late[:ASKED_MAX]
            }
            self.transactions = await holders(self._source, logs)


class TransactionNames:
    """Whose transactions lanes copy, by name, while the source can still tell: only its coordinators know the ids of
    the producers that lanes see. Asked no oftener than every ten seconds, and only of producers that were not known.
    """

    def __init__(self, source: Client) -> None:
        self._source = source
        self._asked_at = float("-inf")

    async def look_when_due(
        self, reports: Iterable[LaneReport], known: Sequence[TornTransaction]
    ) -> tuple[TornTransaction, ...]:
        """The transactional ids of producers, with those `known` before, the newest last, or nothing where there are no
        new ones. What is not answered is left unknown.
        """
        now = time.monotonic()
        found = {producer for report in reports for producer in report.within or ()}
        new = found - {each.producer_id for each in known}
        if now - self._asked_at < AGED_S or not new:
            return ()
        self._asked_at, asked = now, sorted(new)[:ASKED_MAX]
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                ids = await transactional_ids(self._source, asked)
                named = [TornTransaction(*each) for each in sorted(ids.items()) if len(each[1]) <= _NAME_MAX]
                return (*known, *named)[-_NAMES_MAX:] if named else ()
        return ()


async def holders(source: Client, logs: Mapping[SourceTopicPartition, LogRange]) -> tuple[OpenTransaction, ...]:
    """The transactions for which the ends of these logs wait; none where brokers do not tell soon."""
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(_ANSWER_S):
            return await transactions_holding(source, logs)
    return ()
