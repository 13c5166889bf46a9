"""Write dead letters into a topic of the target, each once, however often that is begun.

Each transaction has some records and, in the log of the letters, the mark that their letters were replayed into this
topic. So what a replay has done does not depend on what the topic keeps: a second one reads the marks. A replay first
initializes its transactional id: what an earlier one has on its way is refused from then on. It commits only if no mark
stands between the end of the log as it was read and its own: a leader that was none any more may have shown that end.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import Letter
from isthmus.engine.mapped.reworking import encode_pieces, measure
from isthmus.engine.mapped.transformer import Changed, Delayed, Failure, Portion, build_portion
from isthmus.errors import BrokerRefused, ClusterError, PlanRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.link import Link
from isthmus.model.links.deadletters import dead_letters_of, replay_transaction_of
from isthmus.model.links.recovery import OffsetRuns
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery.letters import StoredLetter, has_marks, load_letters, mark_replayed, read_letters
from isthmus.recovery.replaying import ReplayedPartition, find_destination
from isthmus.recovery.sides import find_topic
from isthmus.topics.preflight import batch_bytes_max, is_compacted

_T = TypeVar("_T")
ChangeRecords = Callable[[Transform, Sequence[Portion]], Awaitable[Sequence[Sequence[Changed]]]]
"""Has a transform change the records of portions; what became of each record, in their order."""
_CHUNK_RECORDS: Final = 500
_CHUNK_BYTES: Final = 1 << 20
_BITE_RECORDS: Final = 20_000
_BITE_BYTES: Final = 8 << 20
"""The most that is held at once of a partition."""
_PARCEL_BYTES: Final = 512 << 10
_LZ4: Final = 3
_WRITE_S: Final = 30.0
_TIMEOUT_MS: Final = 60_000


class _Settled(NamedTuple):
    """A letter, and what became of its record: `None` if it is left out."""

    stored: int
    letter: Letter
    record: Record | None


@dataclass(slots=True)
class _Tally:
    written: int = 0
    left_out: int = 0
    failed: int = 0
    reason: str = ""

    def fail(self, reason: str) -> None:
        self.failed, self.reason = self.failed + 1, self.reason or reason

    def count(self, settled: Sequence[_Settled]) -> None:
        written = sum(each.record is not None for each in settled)
        self.written, self.left_out = self.written + written, self.left_out + len(settled) - written


class _DueLetters(NamedTuple):
    """The places of letters of a partition that are to be replayed, in order, how many were replayed already, and where
    their log ended.
    """

    pending: list[StoredLetter]
    present: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterReplayer:
    """Replays the dead letters of `topic` of a link into a topic at its target, as the link's present transform changes
    their records by `change`, or as they were without one.
    """

    link: Link
    target: Client
    topic: TargetTopic
    into: str
    change: ChangeRecords | None = None
    on_step: Callable[[str], None] = lambda _: None

    async def replay(self, *, dry_run: bool = False) -> tuple[ReplayedPartition, ...]:
        """Write the records of letters that were not replayed there yet, in the order of their origin; none where there
        are no dead letters. Letters for which the transform fails again stay to be replayed. With `dry_run` only count.

        :raises PlanRefused: The topic is not there, or has fewer partitions; or nothing changes its records now; or the
            topic for dead letters is compacted.
        :raises ClusterError: The target cannot be read or written; a repeated call continues.
        """
        name = dead_letters_of(self.link.name, self.topic)
        there = await find_topic(self.target, name)
        if there is None:
            return ()
        if is_compacted(there):
            raise PlanRefused(
                f"topic {name} of {self.target.cluster.alias} is compacted: it refuses the marks of what was replayed",
                hint=f"Set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on topic {name}.",
            )
        into = await find_destination(self.target, self.into)
        writer = _Writer(self.target, self.link.name, self.topic, into, there)
        if not dry_run:
            await writer.transaction.initialize()
        await self._require_partitions(writer)
        found = []
        for partition in range(there.partition_count):
            self.on_step(f"{self.topic}: partition {partition + 1} of {there.partition_count}")
            found.append(await self._replay((name, partition), writer, dry_run=dry_run))
        await writer.wait()
        return tuple(found)

    async def _require_partitions(self, writer: _Writer) -> None:
        """See that the topic has a partition for each letter."""
        there, into = writer.letters, writer.into
        for partition in range(into.partition_count, there.partition_count):
            if (await self._find_due((there.name, partition), writer)).pending:
                raise PlanRefused(
                    f"{into.name} of {self.target.cluster.alias} has {into.partition_count} partitions, and records of "
                    f"partition {partition} were set aside",
                    hint=f"Records keep their partition. Add partitions to {into.name}, or name another topic: --into.",
                )

    async def _find_due(self, key: PartitionKey, writer: _Writer) -> _DueLetters:
        log = await read_letters(self.target, *key)
        letters = select_due(log.letters, self.topic, writer.into)
        pending = in_order(select_pending(letters, log.replayed.get(writer.into_id, OffsetRuns())))
        return _DueLetters(pending, len(letters) - len(pending), log.end)

    async def _replay(self, key: PartitionKey, writer: _Writer, *, dry_run: bool) -> ReplayedPartition:
        due, tally = await self._find_due(key, writer), _Tally()
        writer.read_until = due.log_end
        for places in _split(due.pending, lambda one: one.size, most=(_BITE_RECORDS, _BITE_BYTES)):
            letters = await load_letters(self.target, key, places)
            settled: list[_Settled] = []
            for place, letter, outcome in zip(places, letters, await self._settle(letters), strict=True):
                if isinstance(outcome, Failure | Delayed):
                    tally.fail(f"offset {letter.record.offset}: {outcome.reason}")
                else:
                    settled.append(_Settled(place.stored, letter, outcome))
            if not dry_run:
                for chunk in _chunks(settled):
                    await writer.write(key, chunk, tally)
            else:
                tally.count(settled)
        return ReplayedPartition(
            partition=key[1],
            written=tally.written,
            present=due.present,
            left_out=tally.left_out,
            failed=tally.failed,
            reason=tally.reason,
        )

    async def _settle(self, letters: Sequence[Letter]) -> list[Changed]:
        """Return what becomes of the records of letters."""
        if self.change is None:
            return [each.record for each in letters]
        source = self.link.topics.source_of(self.topic) or SourceTopic(letters[0].topic)
        transform = self.link.transform_of(source)
        if transform is None:
            raise PlanRefused(
                f"link {self.link.name} has no transform for {source} now, which could change its dead letters",
                hint="--raw replays them as they were; what a transform was to remove is in them.",
            )
        portions = [_portion(transform, run) for run in _runs(letters)]
        return [each for answer in await self.change(transform, portions) for each in answer]


@dataclass(slots=True)
class _Writer:
    """Writes records and marks, in transactions of one producer; whether the last of them `has_committed`. The log of
    letters is known up to `read_until`.
    """

    target: Client
    link: str
    topic: TargetTopic
    into: TopicDescription
    letters: TopicDescription
    transaction: Transaction = field(init=False)
    has_committed: bool | None = None
    read_until: int = 0
    sequences: defaultdict[PartitionKey, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        named = replay_transaction_of(self.link, self.topic)
        self.transaction = Transaction(self.target, named, timeout_ms=_TIMEOUT_MS)

    @property
    def into_id(self) -> str:
        """The topic that gets the records, as marks name it: another one of its name is another topic."""
        return f"{self.into.name}@{self.into.topic_id}"

    async def write(self, key: PartitionKey, chunk: Sequence[_Settled], tally: _Tally) -> None:
        """Write the records of a chunk of letters, and mark these as replayed; all or nothing. A record that the topic
        does not take fails by itself.

        :raises ClusterError: They cannot be written.
        """
        records = [(each.record, _LZ4) for each in chunk if each.record is not None]
        try:
            await self._write(key, records, mark_replayed(self.into_id, [s.stored for s in chunk], _now_ms()))
        except BrokerRefused as error:
            if error.code not in codes.RECORD_UNFIT:
                raise
            if len(chunk) == 1:
                tally.fail(f"offset {chunk[0].letter.record.offset}: {error.message}")
                return
            half = len(chunk) // 2
            await self.write(key, chunk[:half], tally)
            await self.write(key, chunk[half:], tally)
        else:
            tally.count(chunk)

    async def _write(self, key: PartitionKey, records: Sequence[tuple[Record, int]], mark: Record) -> None:
        into: PartitionKey = (self.into.name, key[1])
        bytes_max = min(batch_bytes_max(self.into) - HEADER_BYTES, _PARCEL_BYTES)
        pieces = encode_pieces(records, 0, bytes_max)
        await self.transaction.add([key, into] if records else [key])
        try:
            # Readers of the other topic wait for the end of the transaction only once it has records there.
            (base,) = await self._append(key, self.letters, encode_pieces([(mark, 0)], 0, _PARCEL_BYTES))
            await self._check_unmarked(key, base)
            await self._append(into, self.into, pieces)
        except BrokerRefused:
            # What comes next must not be committed together with a part of this.
            await self._end(commit=False)
            raise
        except BaseException:
            # Nothing comes next; consumers of committed records wait for the end.
            with contextlib.suppress(ClusterError):
                await self._end(commit=False)
            raise
        await self._end(commit=True)

    async def _check_unmarked(self, key: PartitionKey, base: int) -> None:
        """See that no marks are between the log's end as it is known and our own mark at `base`.

        :raises ClusterError: There are, or nobody can tell: the letters may have been replayed already.
        """
        span = OffsetRange(*key, self.read_until, base)
        # The true leader has the log up to our mark; one that was cut off does not, and is not believed.
        if base < self.read_until or (not span.is_empty and await has_marks(self.target, span, self.into_id)):
            alias = self.target.cluster.alias
            raise Unreachable(
                f"topic {key[0]} of {alias} does not end where it was read to: others may have replayed its letters, "
                "or a broker that led it before has answered",
                cluster=alias,
                hint="Nothing of this part was written. Repeat the replay.",
            )
        self.read_until = base + 1

    async def _end(self, *, commit: bool) -> None:
        await self.transaction.end(commit=commit)
        self.has_committed = commit

    async def wait(self) -> None:
        """Wait until readers of committed records see what was written."""
        if self.has_committed is not None:
            await self.transaction.wait_for_end(commit=self.has_committed)

    async def _append(self, key: PartitionKey, topic: TopicDescription, pieces: Sequence[Piece]) -> list[int]:
        """Append batches; return their base offsets."""
        transaction, leader, bases = self.transaction, LogLeader(self.target, key), list[int]()
        try:
            await leader.connect()
            if leader.place.topic_id != topic.topic_id:
                # Its letters are others, or its records were given to the transform again.
                raise Unreachable(
                    f"topic {topic.name} of {self.target.cluster.alias} was created again meanwhile",
                    cluster=self.target.cluster.alias,
                    hint="Look at its dead letters again (isthmus quarantine list), then repeat the replay.",
                )
            for piece in pieces:
                batch, sequence = piece.batch, self.sequences[key]
                header = stamp(batch, transaction.producer_id, transaction.epoch, sequence, transactional=True)
                bases.append(
                    await leader.append(header, batch, term_s=_WRITE_S, transactional_id=transaction.transactional_id)
                )
                self.sequences[key] += batch.record_count
            return bases
        finally:
            leader.close()


def select_due(letters: Sequence[StoredLetter], topic: TargetTopic, into: TopicDescription) -> list[StoredLetter]:
    """Return the letters to replay into a topic. The link's own `topic` may have begun again since: then their records
    were given to the transform again, and those of the former one would come twice.
    """
    return [each for each in letters if into.name != topic or each.letter.target_id == into.topic_id]


def select_pending(letters: Sequence[StoredLetter], done: OffsetRuns) -> list[StoredLetter]:
    """Return the letters whose records were not replayed yet: of a record that has several, left out of one target
    topic after the other, the last one.
    """
    places = {(each.letter.topic_id, each.letter.place) for each in letters if each.stored in done}
    last = {(each.letter.topic_id, each.letter.place): each for each in letters}
    return [each for place, each in last.items() if place not in places]


def in_order(letters: Sequence[StoredLetter]) -> list[StoredLetter]:
    """Return letters in the order of their origin: by topic, as it was created again, by leader epoch and offset."""
    topics = {
        topic_id: number for number, topic_id in enumerate(dict.fromkeys(each.letter.topic_id for each in letters))
    }

    def origin(one: StoredLetter) -> tuple[int, int, int]:
        return topics[one.letter.topic_id], one.letter.epoch, one.letter.record.offset

    return sorted(letters, key=origin)


def _runs(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Split letters into runs that a transform can get at once: of one topic, each offset once, and not too many."""

    def follows(last: Letter, one: Letter) -> bool:
        return one.topic_id == last.topic_id and one.record.offset > last.record.offset

    return _split(letters, lambda one: measure(one.record), follows)


def _portion(transform: Transform, run: Sequence[Letter]) -> Portion:
    """Build the records of letters as their lane had them."""
    first, records = run[0], [each.record for each in run]
    return build_portion(first.topic, first.partition, transform.digest, records, [each.is_appended for each in run])


def _chunks(settled: Sequence[_Settled]) -> Iterator[list[_Settled]]:
    """Split letters into those of one transaction each."""
    return _split(settled, lambda one: 0 if one.record is None else measure(one.record))


def _split(
    items: Iterable[_T],
    size_of: Callable[[_T], int],
    follows: Callable[[_T, _T], bool] = lambda *_: True,
    *,
    most: tuple[int, int] = (_CHUNK_RECORDS, _CHUNK_BYTES),
) -> Iterator[list[_T]]:
    """Split items into lists of a bounded length and size (`most`), in which each item follows the one before it."""
    found: list[_T] = []
    size = 0
    for each in items:
        own = size_of(each)
        is_full = len(found) >= most[0] or size + own > most[1]
        if found and (is_full or not follows(found[-1], each)):
            yield found
            found, size = [], 0
        found.append(each)
        size += own
    if found:
        yield found


def _now_ms() -> int:
    return int(time.time() * 1000)
