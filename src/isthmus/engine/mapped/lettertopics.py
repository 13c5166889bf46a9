"""Writes dead letters to topics at the target, each once.

A topic for dead letters has the partitions of the topic whose letters it takes, and each is written by one lane. Which
letters are there is never remembered: their log says it. Who takes a lane's letters over initializes its transactional
id, so that what an earlier owner has on its way is refused from then on. Then it reads the log back from its end, as
far as letters behind the lane's place may stand there. Letters are written in a transaction, which is committed only if
it stands where that log ended: what was read from a leader that was none any more is noticed so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from isthmus.engine.batches.rebatch import Record, records_of, split
from isthmus.engine.mapped.letterlog import read_back
from isthmus.engine.mapped.letters import as_letter, read_letter
from isthmus.engine.mapped.refusals import RefusedLetters
from isthmus.engine.mapped.reworking import encode_pieces
from isthmus.engine.mapped.transformer import DeadLetter, LaneLetters, LetterRefused
from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.permission import Permission
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Lane
from isthmus.model.links.deadletters import dead_letters_of, letters_transaction_of

_PARCEL_BYTES: Final = 512 << 10
_LZ4: Final = 3
_TIMEOUT_MS: Final = 60_000
_PATIENCE_S: Final = 5.0
_WRITE_S: Final = 10.0
_ROUNDS_MAX: Final = 5
_TOO_LARGE: Final = frozenset({codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE})
_FOR_GOOD: Final = codes.RECORD_UNFIT
"""Refusals that stay until the topic has other settings."""


class LetterTopics:
    """The topics for dead letters of a link from `source`, an alias. `may_send` is checked before each request that
    changes a transaction.
    """

    def __init__(self, source: str, target: Client, link: str, may_send: Permission) -> None:
        self._source, self._target, self._link = source, target, link
        self._may_send = may_send
        self._refused = RefusedLetters()

    async def take_over(self, lane: Lane, begin: int) -> LaneLetters:
        """Take over the letters of a lane that goes on at the source offset `begin`.

        :raises ClusterError: They cannot be read or written now.
        """
        key = dead_letters_of(self._link, lane.target_topic), lane.partition
        await _require(self._target, *key)
        transaction = Transaction(
            self._target,
            letters_transaction_of(self._link, lane.target_topic, lane.partition),
            timeout_ms=_TIMEOUT_MS,
            may_send=self._may_send,
            patience_s=_PATIENCE_S,
        )
        await transaction.initialize()
        log = await _find_log(self._target, key)
        kept, furthest = set[tuple[int, int]](), -1
        async with aclosing(read_back(self._target, key, log)) as letters:
            async for letter in letters:
                if not letter.is_of(lane):
                    continue
                furthest = max(letter.furthest, furthest)
                if letter.furthest < begin:
                    break
                if letter.record.offset >= begin:
                    kept.add(letter.place)
        return _TakenLetters(
            self._target, transaction, lane, self._source, key, log.end, frozenset(kept), furthest, self._refused
        )


class _TakenLetters:
    """The letters of a lane, whose log ended at `end` when they were taken over."""

    def __init__(
        self,
        target: Client,
        transaction: Transaction,
        lane: Lane,
        source: str,
        key: tuple[str, int],
        end: int,
        kept: frozenset[tuple[int, int]],
        furthest: int,
        refused: RefusedLetters,
    ) -> None:
        self.kept, self._furthest, self._refused = kept, furthest, refused
        self._target, self._transaction = target, transaction
        self._lane, self._source = lane, source
        self._key, self._end, self._paused_until = key, end, 0.0

    async def put(self, letters: Sequence[DeadLetter]) -> None:
        """Add letters, in their order; more than one transaction is needed where a quota pauses the link.

        :raises LetterRefused: One of them is refused by itself, now or a short time ago; those before it are there.
        :raises ClusterError: They cannot be kept now; the first ones may be there.
        """
        places = [(each.record.offset, each.epoch) for each in letters]
        refused = self._refused.find(self._key, places, time.monotonic())
        await self._put(letters if refused is None else letters[: places.index(refused.place)])
        if refused is not None:
            raise refused

    async def _put(self, letters: Sequence[DeadLetter]) -> None:
        records: list[tuple[Record, int]] = []
        for each in letters:
            self._furthest = max(each.record.offset, self._furthest)
            records.append((as_letter(each, self._lane, self._source, self._furthest), _LZ4))
        batches = deque(piece.batch for piece in encode_pieces(records, 0, _PARCEL_BYTES))
        leader = LogLeader(self._target, self._key)
        # A quota's pause outlasts the connection.
        await asyncio.sleep(max(self._paused_until - time.monotonic(), 0.0))
        try:
            rounds = 0
            while batches:
                if await self._write(leader, batches):
                    continue
                rounds += 1
                if rounds > _ROUNDS_MAX:
                    raise self._crowded_error("others write to it all the time")
                # Else its end would be read before the marker of what was just aborted, and the next batch meet that.
                await self._transaction.wait_for_end(commit=False)
                await self._look_on()
        except ClusterError as error:
            if isinstance(error, BrokerRefused):
                # Consumers of committed records wait for its end.
                with contextlib.suppress(ClusterError):
                    await self._transaction.end(commit=False)
            # A topic that is gone is the better reason.
            await _require(self._target, *self._key)
            raise
        finally:
            self._paused_until = leader.muted_until
            leader.close()

    async def _write(self, leader: LogLeader, batches: deque[Batch]) -> bool:
        """Append batches in a transaction, and take them away, up to a pause by a quota: while it lasts, no transaction
        is open. Return False if the log did not end where it was known to, so that none counts.
        """
        transaction, end, written = self._transaction, self._end, list[Batch]()
        await leader.wait_until_unmuted()
        await transaction.begin(self._key)
        while batches and not (written and leader.muted_until > time.monotonic()):
            batch = batches.popleft()
            header = stamp(batch, transaction.producer_id, transaction.epoch, transaction.sequence, transactional=True)
            try:
                base = await leader.append(
                    header, batch, term_s=_WRITE_S, transactional_id=transaction.transactional_id
                )
            except BrokerRefused as error:
                if error.code not in _FOR_GOOD:
                    raise
                if batch.record_count > 1:
                    batches.extendleft(reversed(split(batch, batch.size_bytes // 2)))
                    continue
                await transaction.end(commit=bool(written))
                raise self._note_refusal(error, batch) from error
            transaction.note_appended(batch.record_count)
            written.append(batch)
            if base != end:
                await transaction.end(commit=False)
                batches.extendleft(reversed(written))
                return False
            end += batch.record_count
        await transaction.end(commit=True)
        # Behind them is the marker of the transaction.
        self._end = end + 1
        return True

    async def _look_on(self) -> None:
        """Read what others have appended: marks of replays, and what is no letter of the lane.

        :raises ClusterError: It cannot be read, or there is a letter: it was not known what was there.
        """
        log = await _find_log(self._target, self._key)
        async with aclosing(read_back(self._target, self._key, replace(log, start=self._end))) as letters:
            async for letter in letters:
                if letter.is_of(self._lane):
                    raise self._crowded_error("it holds more than it had when it was read")
        self._end = log.end

    def _crowded_error(self, what: str) -> Unreachable:
        alias = self._target.cluster.alias
        return Unreachable(f"topic {self._key[0]} of {alias}: {what}", cluster=alias, hint="It is read again.")

    def _note_refusal(self, error: BrokerRefused, batch: Batch) -> LetterRefused:
        """Return the error that the only letter of a batch is refused; it is noted."""
        letter, now = read_letter(records_of(batch)[0]), time.monotonic()
        assert letter is not None  # noqa: S101  # it is ours
        topic, alias = self._key[0], self._target.cluster.alias
        what, hint = f"the dead letter of offset {letter.record.offset}", error.hint
        message = f"{what} is refused by topic {topic} of {alias}: {error.message}"
        if error.code in _TOO_LARGE:
            setting = "segment.bytes" if error.code == codes.RECORD_LIST_TOO_LARGE else "max.message.bytes"
            message = (
                f"{what} makes a batch of {batch.size_bytes} bytes, which is too large for topic {topic} of {alias}"
            )
            hint = f"Raise {setting} of topic {topic}."
        named = BrokerRefused(message, code=error.code, name=error.name, cluster=alias, hint=hint)
        self._refused.note(self._key, letter.place, named, now)
        return LetterRefused(letter.place, named)


async def _require(target: Client, topic: str, partition: int) -> None:
    """Require that the topic for dead letters has the partition."""
    found = (await target.metadata([topic])).topics[topic]
    is_unknown = found.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
    if is_unknown or (
        found.error_code == codes.NONE and partition not in {each.partition for each in found.partitions}
    ):
        what = "is not there" if is_unknown else f"has no partition {partition}"
        raise Unreachable(
            f"topic {topic} of {target.cluster.alias}, which takes dead letters, {what}",
            cluster=target.cluster.alias,
            hint="A run creates it, and adds partitions, when it next looks for topics; isthmus plan shows if it can.",
        )


async def _find_log(target: Client, key: tuple[str, int]) -> LogRange:
    outcomes = await log_ranges(target, [key])
    for error in outcomes.errors.values():
        raise error
    return outcomes.values[key]
