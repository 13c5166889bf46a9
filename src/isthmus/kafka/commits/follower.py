"""Follows commits in `__consumer_offsets` itself, within milliseconds. Needs READ on that topic.

A start does not read the compacted log from its beginning, which may be gigabytes. It asks the coordinators once for
all positions, and reads the log from its oldest open transaction, and its last records in any case. Up to the log ends
after that question the result is as the coordinators answered, or newer; from there on the log alone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.client import Client
from isthmus.kafka.commits.poller import GroupSurvey
from isthmus.kafka.commits.table import CommitTable, Transacted
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, Positions
from isthmus.kafka.log.fetch import Fetched, FetchSession, Throttle, Want
from isthmus.kafka.log.leaders import leaders_of
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.model.naming import SourceTopic, SourceTopicPartition

_LONG_POLL_MS: Final = 500
_BYTES: Final = 4 << 20
_ANSWER_S: Final = 10.0
_RETRY_S: Final = 0.2
_START_S: Final = 30.0
_SURVEY_S: Final = 5.0
"""The interval in seconds of listing groups, and of asking again for those in error."""
_ENDS_S: Final = 2.0
_TAIL_RECORDS: Final = 1_000
"""A coordinator that replaced a dead one may not return the last commits before that, until the next commit."""


class LogLost(Unreachable):
    """The log of commits does not continue where it was read: everything has to be read again."""


class CommitFollower(GroupSurvey):
    """The positions of all wanted groups, as they change; see `KnownCommits`."""

    way: Final = "log"

    def __init__(self, client: Client, wanted: Callable[[str], bool], literals: Collection[str] = ()) -> None:
        super().__init__(client, wanted, literals)
        self._table = CommitTable(wanted)
        self._offsets: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._unheard: set[int] = set()
        self._unreadable: set[int] = set()
        self._whole: set[str] = set()
        self._lacking: set[str] = set()
        self._changed: set[str] = set()
        self._stirred = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._surveyed_at = 0.0

    @property
    def positions(self) -> Mapping[str, Positions[SourceTopic]]:
        """All positions by group; groups without any are left out."""
        return self._table

    def find_transacted(self, group: str) -> Mapping[SourceTopicPartition, tuple[Transacted, ...]]:
        """The newest transactional commits of each position, also those that were replaced since the start."""
        return self._table.find_transacted(group)

    def writers(self, group: str) -> Mapping[SourceTopicPartition, int]:
        """The producers that committed the present positions, as far as known from the log; see `CommitTable`."""
        return self._table.writers(group)

    async def wait_for_changes(self, timeout_s: float) -> frozenset[str]:
        """Wait for commits, at most `timeout_s`. Return groups whose positions may have changed since the last call.

        :raises NotAuthorized: READ on `__consumer_offsets` is missing.
        :raises ValueError: The log holds records that cannot be decoded.
        :raises ClusterError: The log cannot be read now; the next call starts again.
        """
        if self._reading is None:
            await self._start()
        elif time.monotonic() - self._surveyed_at > _SURVEY_S:
            await self._look_again()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._stirred.wait()
        self._stirred.clear()
        await self._check()
        found, self._changed = frozenset(self._changed), set()
        return found

    async def aclose(self) -> None:
        """Stop reading."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _check(self) -> None:
        """Raise the error of the reading task, if it has ended."""
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            reading.result()

    async def _start(self) -> None:
        self._table = CommitTable(self._wanted)
        before = await self._log_ranges()
        await self.survey()
        for group, positions in self.answered.items():
            self._table.seed(group, positions)
        self._whole = self.listings.keys() - self.errors.keys()
        self._lacking = set(self.errors)
        after = await self._log_ranges()
        self._unreadable = before.errors.keys() | after.errors.keys()
        ends = {partition: log.end for partition, log in after.values.items() if partition not in self._unreadable}
        self._offsets = {partition: _begin(before.values[partition]) for partition in ends}
        self._epochs = dict.fromkeys(self._offsets, -1)
        self._surveyed_at = time.monotonic()
        # Only the first answer shows whether reading is allowed.
        self._unheard = set(self._offsets)
        self._reading = asyncio.create_task(self._read())
        deadline = Deadline(_START_S)
        while self._unheard or any(self._offsets.get(partition, 0) < end for partition, end in ends.items()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._stirred.wait()
            self._stirred.clear()
            await self._check()
            if deadline.has_passed:
                await self.aclose()
                raise self._stuck_error()
        if self._unlisted:
            try:
                await self.survey(known=self._whole, unlisted=self._unlisted)
            except ClusterError:
                await self.aclose()
                raise
        self._table.begin()
        self._changed |= self._table.keys()
        self._stirred.set()

    @property
    def _unlisted(self) -> set[str]:
        """Groups that are only in the log: hidden from us by a missing right, or not listed yet."""
        return self._table.keys() - self.listings.keys()

    async def _look_again(self) -> None:
        """List the groups, and ask once for the positions of those that were added since the start.

        A new group has all its commits in the log. A group that could not be read before, or was hidden by a missing
        right, has older positions: then reading starts again, at once if its broker did not answer before. It also
        starts again if a partition of the log can be read again.
        """
        had_unheard = bool(self.unheard)
        await self.survey(known=self._whole, unlisted=self._unlisted)
        self._surveyed_at = time.monotonic()
        found, errors = self.answered, self.errors.keys()
        lacking = {group for group in found.keys() - errors if found[group].keys() - self._table.get(group, {}).keys()}
        # The coordinator may be ahead of the log as read: a single difference proves nothing.
        is_overdue = bool(lacking if had_unheard else lacking & self._lacking)
        self._lacking = lacking | errors
        self._whole |= self.listings.keys() - self._lacking
        if is_overdue or (self._unreadable and self._unreadable & (await self._log_ranges()).values.keys()):
            await self.aclose()
            await self._start()

    async def _log_ranges(self) -> Outcomes[int, LogRange]:
        """The log ranges by partition. A partition without a leader affects only its groups."""
        metadata = await self._metadata()
        keys = [(OFFSETS_TOPIC, p.partition) for p in metadata.topics[OFFSETS_TOPIC].partitions]
        outcome = await log_ranges(self._client, keys, timeout_s=_ENDS_S)
        for error in outcome.errors.values():
            if not may_pass(error) or not outcome.values:
                raise error
        return Outcomes(
            {partition: log for (_, partition), log in outcome.values.items()},
            {partition: error for (_, partition), error in outcome.errors.items()},
        )

    def _stuck_error(self) -> Unreachable:
        return Unreachable(
            f"{OFFSETS_TOPIC} of {self._client.cluster.alias} cannot be read to its end",
            cluster=self._client.cluster.alias,
            hint="Are all its replicas up? isthmus doctor names the partitions that are not.",
        )

    async def _metadata(self) -> Metadata:
        metadata = await self._client.metadata([OFFSETS_TOPIC])
        code = metadata.topics[OFFSETS_TOPIC].error_code
        right = on_topic("DESCRIBE", OFFSETS_TOPIC)
        codes.raise_for_code(code, f"reading {OFFSETS_TOPIC}", right, cluster=self._client.cluster.alias)
        return metadata

    async def _read(self) -> None:
        """Read all partitions from their leaders, following those that move, until an error does not pass."""
        while True:
            try:
                metadata = await self._metadata()
                leaders, _ = leaders_of(metadata, [(OFFSETS_TOPIC, partition) for partition in self._offsets])
                async with asyncio.TaskGroup() as group:
                    for node, keys in leaders.items():
                        group.create_task(self._read_from(node, metadata, keys))
                    if len(self._offsets) > sum(map(len, leaders.values())):
                        # Some partitions have no leader: find it again later.
                        group.create_task(_restart_readers())
            except ClusterError as error:
                self._pass_over(error)
            except BaseExceptionGroup as errors:
                self._pass_over(errors.exceptions[0])
            await asyncio.sleep(_RETRY_S)

    def _pass_over(self, error: BaseException) -> None:
        if not isinstance(error, ClusterError) or not error.retryable or isinstance(error, LogLost):
            self._stirred.set()
            raise error

    async def _read_from(self, node: int, metadata: Metadata, leader_epochs: Mapping[PartitionKey, int]) -> None:
        topic_id = metadata.topics[OFFSETS_TOPIC].topic_id
        session = FetchSession[str](isolation=READ_UNCOMMITTED)
        connection = await self._client.dial(node)
        try:
            for key, epoch in leader_epochs.items():
                session.want(key, Want(topic_id, self._offsets[key[1]], epoch, self._epochs[key[1]]))
            wait_ms, throttle = 0, Throttle(_BYTES)
            while not connection.due_for_renewal:
                by_topic_id = topic_id != NO_TOPIC_ID
                request = session.request(
                    max_wait_ms=wait_ms, bytes_max=_BYTES, partition_bytes_max=_BYTES, by_topic_id=by_topic_id
                )
                answer = await connection.call(request, timeout_s=_ANSWER_S)
                found = self._take_answer(session, answer)
                for key in found:
                    want = Want(topic_id, self._offsets[key[1]], leader_epochs[key], self._epochs[key[1]])
                    session.want(key, want)
                if answer.throttle_time_ms:
                    # A throttled answer shows neither where the log ends nor whether reading is allowed.
                    await asyncio.sleep(throttle.pause_s(answer.throttle_time_ms))
                    continue
                throttle.end()
                if wait_ms == 0:
                    self._unheard -= {partition for _, partition in leader_epochs}
                    self._stirred.set()
                wait_ms = _LONG_POLL_MS
        finally:
            connection.close()
        await _restart_readers()

    def _take_answer(self, session: FetchSession[str], answer: Any) -> list[PartitionKey]:
        """Take one answer. Return the partitions that had new records."""
        code = session.take_answer(answer)
        if code != codes.NONE:
            raise self._moved_error(code)
        return [fetched.key for fetched in session.partitions(answer) if self._take(fetched)]

    def _take(self, fetched: Fetched[str]) -> bool:
        """Take the records of a partition. Return whether any were new."""
        if fetched.error_code in codes.LEADER_MOVED:
            raise self._moved_error(fetched.error_code)
        if fetched.error_code == codes.OFFSET_OUT_OF_RANGE or fetched.diverged_at >= 0:
            raise LogLost(
                f"{OFFSETS_TOPIC}-{fetched.key[1]} of {self._client.cluster.alias} was truncated",
                cluster=self._client.cluster.alias,
                hint="An unclean election lost commits; Isthmus reads them all again.",
            )
        right = on_topic("READ", OFFSETS_TOPIC)
        codes.raise_for_code(fetched.error_code, f"reading {OFFSETS_TOPIC}", right, cluster=self._client.cluster.alias)
        partition = fetched.key[1]
        took = False
        for batch in scan(fetched.records):
            if batch.offset_end > self._offsets[partition]:
                self._changed |= self._table.take(partition, batch)
                self._offsets[partition] = batch.offset_end
                self._epochs[partition] = batch.leader_epoch
                took = True
        if took:
            self._stirred.set()
        return took

    def _moved_error(self, code: int) -> Unreachable:
        return Unreachable(
            f"{self._client.cluster.alias} cannot read {OFFSETS_TOPIC} now: {codes.name_of(code)}",
            cluster=self._client.cluster.alias,
        )


def _begin(log: LogRange) -> int:
    return max(log.start, min(log.stable_end, log.end - _TAIL_RECORDS))


async def _restart_readers() -> None:
    """Make the readers start again with fresh metadata, a little later."""
    await asyncio.sleep(_RETRY_S)
    raise Unreachable(f"{OFFSETS_TOPIC} has to be looked for again")
