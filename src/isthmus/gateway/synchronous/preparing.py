"""Commits that wait before they are forwarded, until followers have all records of the prepared transaction.

That is for partitions that are copied before it is known how their transactions end. If the source is lost after that,
a follower has nothing of the transaction, or all of it: its partitions are in the follower's ledger by then
(`kafka/transactions/finishing.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from isthmus.errors import ClusterError
from isthmus.gateway.frames.committing import CommitOwed, Span, commit_refused
from isthmus.gateway.frames.duties import Duties, Duty, SyncLink, Waiter
from isthmus.kafka import codes
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.naming import SourceTopicPartition, TargetTopicPartition
from isthmus.model.text.wording import first_few

_log = logging.getLogger(__name__)
_PREPARE_S: Final = 12.0
"""The same time may pass again until the commit is answered."""
_LOOK_S: Final = 0.05


class _Part(NamedTuple):
    """A partition of a transaction, at the source and at the follower."""

    link: SyncLink
    key: SourceTopicPartition
    target: TargetTopicPartition
    span: Span

    @property
    def is_copied_open(self) -> bool:
        """Whether its records are copied before the transaction is decided, and have to be at the follower by then."""
        is_held = self.link.duty(is_transactional=True) is not Duty.PASS
        return is_held and self.link.copies_open(self.key)

    @property
    def has_stood_still(self) -> bool:
        """Whether the follower got none of its records for as long as it may lag."""
        return self.link.follower.still_s(self.target) >= self.link.settings.lag_max_ms / 1000


class _Preparation:
    """A transaction whose records are on their way to followers."""

    def __init__(self, parts: Collection[_Part], since: float) -> None:
        self.since = since
        self.late: dict[_Part, Waiter] = {}
        self.moved = asyncio.Event()
        for part in parts:
            waiter = part.link.follower.wait(part.target, part.span.end, partial(self._note_arrival, part))
            if waiter is not None:
                self.late[part] = waiter

    def drop(self, part: _Part) -> None:
        """Stop waiting for a part."""
        self.late.pop(part).cancel()

    def _note_arrival(self, part: _Part) -> None:
        self.late.pop(part, None)
        self.moved.set()


class Preparations:
    """All commits that wait to be forwarded."""

    def __init__(self, duties: Duties) -> None:
        self._duties = duties
        self._waiting = set[_Preparation]()

    def waiting(self) -> list[tuple[frozenset[str], float]]:
        """Return the links that each commit waits for, and since when (monotonic s)."""
        return [(frozenset(part.link.name for part in each.late), each.since) for each in self._waiting]

    async def prepare(self, owed: CommitOwed) -> bytes | None:
        """Wait until followers have all records of a transaction that are copied before its decision, and their ledgers
        its partitions. Return our answer to the commit, if it must not be forwarded.
        """
        parts = [part for part in self._parts(owed.spans) if part.is_copied_open]
        if not parts:
            return None
        deadline = owed.asked.begun_at + _PREPARE_S
        preparation = _Preparation(parts, owed.asked.begun_at)
        self._waiting.add(preparation)
        try:
            if (refusal := await self._arrive(preparation, owed, deadline)) is not None:
                return refusal
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                await self._note(owed.producer_id, [part for part in parts if part.is_copied_open])
            if any(map(self._is_lost, parts)):
                return commit_refused(owed.asked)
        except (ClusterError, TimeoutError) as error:
            _log.warning("a transaction of %s is not committed, as the follower's ledger does not know of it: %s",
                         owed.asked.transactional_id, str(error) or "it was not written in time")  # fmt: skip
            is_out = any(part.link.duty(is_transactional=True) is Duty.REFUSE for part in parts)
            return commit_refused(owed.asked, None if is_out else codes.COORDINATOR_LOAD_IN_PROGRESS)
        finally:
            self._waiting.discard(preparation)
            for part in list(preparation.late):
                preparation.drop(part)
        return None

    def _parts(self, spans: Mapping[SourceTopicPartition, Span]) -> list[_Part]:
        found = []
        for key, span in spans.items():
            link = self._duties.of(key[0])
            topic = None if link is None else link.target_topic(key[0])
            if link is not None and topic is not None:
                found.append(_Part(link, key, (topic, key[1]), span))
        return found

    async def _arrive(self, preparation: _Preparation, owed: CommitOwed, deadline: float) -> bytes | None:
        """Wait until no part is late. The transaction is not decided yet, so that a refusal is still possible."""
        late = preparation.late
        while late:
            for part in list(late):
                if part.link.duty(is_transactional=True) is Duty.REFUSE or self._is_lost(part):
                    return commit_refused(owed.asked)
                if not part.is_copied_open:
                    preparation.drop(part)
                elif part.has_stood_still:
                    part.link.stand_still({part.key: part.span.end - 1})
            if late and time.monotonic() >= deadline:
                _log.warning("%s did not get to the follower in time: the transaction of %s is not committed yet",
                             _list_parts(late), owed.asked.transactional_id)  # fmt: skip
                return commit_refused(owed.asked, codes.COORDINATOR_LOAD_IN_PROGRESS)
            preparation.moved.clear()
            if late:
                await _wait_for_move(preparation.moved)
        return None

    def _is_lost(self, part: _Part) -> bool:
        """Whether the topic was failed over while its part waited, alone or with all of its link."""
        link = self._duties.of(part.key[0])
        return link is not None and link.is_lost

    async def _note(self, producer_id: int, parts: Collection[_Part]) -> None:
        """Write the partitions of the transaction to each follower's ledger, if there are several."""
        by_link: dict[SyncLink, list[PreparedPart]] = defaultdict(list)
        for part in parts:
            by_link[part.link].append(PreparedPart(*part.target, *part.span))
        for link, prepared in by_link.items():
            if len(prepared) > 1:
                await link.note(PreparedCommit(producer_id, tuple(sorted(prepared))))


def _list_parts(parts: Collection[_Part]) -> str:
    return first_few(sorted(f"{topic}-{partition}" for topic, partition in (part.key for part in parts)))


async def _wait_for_move(moved: asyncio.Event) -> None:
    """Wait until a part has arrived, but no longer than until the next look."""
    try:
        async with asyncio.timeout(_LOOK_S):
            await moved.wait()
    except TimeoutError:
        pass
