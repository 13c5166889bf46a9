"""What a target has of a sink, and what follows from it: pure.

Every task that writes an epoch writes its position too, in the same transaction: the two count together or not at all.
So whether the rows of a task are at the target is never a guess.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple, Self

from isthmus.errors import EpochRefused
from isthmus.model.text.wording import first_few

VERSION: Final = 1
PARTITIONS: Final = 16
"""The partitions of the topic of positions, for good: the positions of a name are found by its hash."""
_NAMED_MAX: Final = 5
EMPTY_DIGEST: Final = "00" * 32
_FNV_BASIS: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_UINT32: Final = 0xFFFFFFFF
SEAL: Final = -1
"""In place of the task: the rows of all tasks together, written when all are committed."""
_LANE_BYTES: Final = 8
_LANE_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochIdentity:
    """The epoch that is written: number `epoch` of the sink `name`, by `owner`: the query, "" for a batch. `job` is
    this attempt at the whole of it.

    Epochs of a stream are `consecutive`. `takes_over` allows to go on where another owner was, or nobody.
    """

    name: str
    owner: str
    epoch: int
    job: str
    consecutive: bool
    takes_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPosition:
    """The rows of one task in an epoch: how many, and their digest. `job` is the attempt that wrote them.

    It `is_complete` once all rows are in the task's transaction; the position before that only says who writes.
    """

    task: int
    owner: str
    epoch: int
    job: str
    transactional_id: str
    rows: int = 0
    digest: str = EMPTY_DIGEST
    is_complete: bool = False

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Read it from JSON.

        :raises EpochRefused: A newer Isthmus wrote it, or it is no position.
        """
        try:
            fields = json.loads(value)
            version = fields.pop("version")
            if version == VERSION:
                return cls(**fields)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise EpochRefused(
                f"the topic of positions holds a record that is no position: {error}",
                hint="Another program writes into it: take its right to do that away.",
            ) from error
        raise EpochRefused(
            f"a newer Isthmus wrote a position of version {version}", hint="Upgrade the Isthmus of the executors."
        )

    def says_same(self, other: SinkPosition) -> bool:
        """Whether both are about the same rows."""
        return (self.rows, self.digest) == (other.rows, other.digest)


class StoredPosition(NamedTuple):
    """A position in the log. While its transaction is open, it may still be aborted."""

    position: SinkPosition
    offset: int
    producer_id: int
    producer_epoch: int
    is_open: bool


class NamePositions(NamedTuple):
    """All positions of one sink: the newest committed one of each task, and those of open transactions."""

    stored: tuple[StoredPosition, ...] = ()

    def of(self, owner: str) -> list[StoredPosition]:
        return [each for each in self.stored if each.position.owner == owner]

    def committed(self, owner: str, epoch: int) -> dict[int, SinkPosition]:
        """The committed positions of an epoch, by task."""
        return {
            each.position.task: each.position
            for each in self.of(owner)
            if not each.is_open and each.position.epoch == epoch and each.position.task != SEAL
        }

    def seal(self, owner: str, epoch: int) -> SinkPosition | None:
        """The seal of an epoch, `None` if it is not known to be committed as a whole."""
        found = (each.position for each in self.of(owner) if each.position.task == SEAL)
        return next((each for each in found if each.epoch == epoch), None)


class TaskVerdict(enum.Enum):
    """What a task is to do with its rows."""

    WRITE = "write"
    SKIP = "skip"
    """They are at the target already: compare them with the position."""


def partition_of(name: str) -> int:
    """Return the partition that holds the positions of a sink (FNV-1a)."""
    value = _FNV_BASIS
    for octet in name.encode():
        value = (value ^ octet) * _FNV_PRIME & _UINT32
    return value % PARTITIONS


def position_key(name: str, task: int) -> bytes:
    """Return the key of a position."""
    return json.dumps([name, task], separators=(",", ":")).encode()


def name_of_key(key: bytes) -> str | None:
    """Return the sink of a key, `None` if it is no key of a position."""
    try:
        name, _ = json.loads(key)
    except (ValueError, TypeError):
        return None
    return name if isinstance(name, str) else None


def decide(identity: EpochIdentity, task: int, found: NamePositions) -> TaskVerdict:
    """Decide what a task does, from the positions of its sink.

    :raises EpochRefused: The epoch may not be written.
    """
    check_epoch(identity, found)
    is_written = task in found.committed(identity.owner, identity.epoch)
    is_written = is_written or found.seal(identity.owner, identity.epoch) is not None
    return TaskVerdict.SKIP if is_written else TaskVerdict.WRITE


def check_epoch(identity: EpochIdentity, found: NamePositions) -> None:
    """See that the epoch is the next one, or the last one once more.

    :raises EpochRefused: It is not.
    """
    ours = found.of(identity.owner)
    if not identity.takes_over:
        _check_owner(identity, found)
        _check_whole(identity, ours)
    newest = max((each.position.epoch for each in ours), default=-1)
    if newest > identity.epoch:
        raise EpochRefused(
            f"epoch {identity.epoch} of sink {identity.name!r} is not written: epoch {newest} is at the target already",
            hint="Was the query started from an older copy of its checkpoint, or does another driver of it still run? "
            "End the older one. Epochs of a batch have to grow.",
        )
    if identity.consecutive and newest < identity.epoch - 1 and not identity.takes_over:
        last = f"the last one there is {newest}" if ours else "there is none"
        raise EpochRefused(
            f"epoch {identity.epoch} of sink {identity.name!r} is not written: the target has no position of the epoch "
            f"before it ({last}), so rows of this epoch may be there or not",
            hint="Was the topic of positions deleted, or does the checkpoint belong to another target? If you are sure "
            "that no row of this epoch is at the target, set the option takeOver=true for one start.",
        )


def _check_owner(identity: EpochIdentity, found: NamePositions) -> None:
    others = (each for each in found.stored if each.position.job != identity.job)
    newest = max(others, key=lambda each: each.offset, default=None)
    if newest is not None and newest.position.owner != identity.owner:
        other = newest.position.owner or "a batch write"
        raise EpochRefused(
            f"sink {identity.name!r} belongs to {other}, which has written its epoch {newest.position.epoch}, and not "
            f"to {identity.owner or 'a batch write'}",
            hint="Give each query a name of its own. If the other one has ended for good, set the option takeOver=true "
            "for one start.",
        )


def _check_whole(identity: EpochIdentity, ours: Collection[StoredPosition]) -> None:
    """See that the epoch before is there as a whole. Spark sees to that for streams, and nobody for batches."""
    there = [each.position for each in ours if not each.is_open]
    newest = max((each.epoch for each in there if each.task != SEAL), default=-1)
    sealed = max((each.epoch for each in there if each.task == SEAL), default=-1)
    if not identity.consecutive and sealed < newest < identity.epoch:
        raise EpochRefused(
            f"epoch {identity.epoch} of sink {identity.name!r} is not written: epoch {newest} before it is there in "
            "part, or was never confirmed",
            hint=f"Write epoch {newest} once more, with the same rows in the same number of partitions: that completes "
            "it. If the rest of it is to be left out, set the option takeOver=true for this one write.",
        )


def add_digests(digests: Iterable[str]) -> str:
    """Return the digest of all rows of which these are the digests of parts."""
    lanes = [0] * (len(EMPTY_DIGEST) // 2 // _LANE_BYTES)
    for digest in digests:
        octets = bytes.fromhex(digest)
        for n in range(len(lanes)):
            lane = octets[n * _LANE_BYTES : (n + 1) * _LANE_BYTES]
            lanes[n] = lanes[n] + int.from_bytes(lane, "little") & _LANE_MASK
    return b"".join(lane.to_bytes(_LANE_BYTES, "little") for lane in lanes).hex()


def seal_of(identity: EpochIdentity, positions: Collection[SinkPosition]) -> SinkPosition:
    """Return the seal of an epoch whose tasks have these rows."""
    return SinkPosition(
        task=SEAL,
        owner=identity.owner,
        epoch=identity.epoch,
        job=identity.job,
        transactional_id="",
        rows=sum(each.rows for each in positions),
        digest=add_digests(each.digest for each in positions),
        is_complete=True,
    )


def check_seal(identity: EpochIdentity, stored: SinkPosition, wanted: SinkPosition) -> None:
    """See that an epoch that is repeated has the rows that are at the target.

    :raises EpochRefused: It has others.
    """
    if not stored.says_same(wanted):
        raise EpochRefused(
            f"epoch {identity.epoch} of sink {identity.name!r} is at the target already with other rows: "
            f"{stored.rows}, and not these {wanted.rows}",
            hint="A repeated epoch has to have the same rows: write without expressions such as rand() or current "
            "time. A batch with other rows needs another name or epoch.",
        )


def check_rows(identity: EpochIdentity, stored: SinkPosition, wanted: SinkPosition) -> None:
    """See that the rows that a task would have written are those that are at the target.

    :raises EpochRefused: They are others.
    """
    if not stored.says_same(wanted):
        raise EpochRefused(
            f"task {wanted.task} of epoch {identity.epoch} of sink {identity.name!r} has other rows ({wanted.rows}) "
            f"than those that are at the target already ({stored.rows})",
            hint="A repeated epoch has to have the same rows in the same tasks: start the query with the same number "
            "of partitions as before, and without expressions such as rand() or current time. A batch with other rows "
            "needs another name or epoch.",
        )


def check_commit(
    identity: EpochIdentity,
    written: Collection[SinkPosition],
    skipped: Collection[int],
    found: NamePositions,
    *,
    task: int | None = None,
) -> list[StoredPosition]:
    """See that these tasks may be committed: they are all of their epoch that will ever be. Return the open
    transactions of others, which have to be ended before; then it has to be seen again. With `task` it commits alone,
    beside others of its own run only.

    All of `written` are in the log, as complete positions. So of two drivers that commit the same epoch, at least one
    sees what the other one has prepared, and none commits before all of that is decided.

    :raises EpochRefused: Tasks are there that are not ours, or ours are not there any more.
    """
    check_epoch(identity, found)
    if found.seal(identity.owner, identity.epoch) is not None:
        if not written:
            return []
        raise EpochRefused(
            f"epoch {identity.epoch} of sink {identity.name!r} was committed by another run meanwhile",
            hint="Start the query again: it goes on behind this epoch.",
        )
    if task is not None:
        own, job = task, identity.job
        found = NamePositions(
            tuple(each for each in found.stored if each.position.task == own or each.position.job != job)
        )
    ours = {(each.job, each.transactional_id) for each in written}
    committed = found.committed(identity.owner, identity.epoch)
    for number, position in committed.items():
        if number not in skipped and (position.job, position.transactional_id) not in ours:
            raise EpochRefused(
                f"task {number} of epoch {identity.epoch} of sink {identity.name!r} is at the target already, written "
                "by another attempt, and not among the tasks of this one",
                hint="Start the query with the same number of partitions as before: it then completes the epoch that "
                "another run began.",
            )
    seen = {
        (each.position.job, each.position.transactional_id)
        for each in found.of(identity.owner)
        if each.position.is_complete and each.position.epoch == identity.epoch
    }
    if lost := [each.task for each in written if (each.job, each.transactional_id) not in seen]:
        raise _lost_error(identity, lost)
    # By producer, the newest position of each open transaction.
    opened = {each.producer_id: each for each in found.stored if each.is_open}
    return [each for each in opened.values() if (each.position.job, each.position.transactional_id) not in ours]


def is_repeated(identity: EpochIdentity, found: NamePositions, *, but: int) -> bool:
    """Return whether another attempt at the epoch has committed tasks of it, `but` not this one. Whether it had split
    the rows as this attempt does is known when all tasks have compared theirs: so none commits by itself.
    """
    committed = found.committed(identity.owner, identity.epoch)
    return but not in committed and any(each.job != identity.job for each in committed.values())


def check_producers(identity: EpochIdentity, producers: Mapping[int, tuple[int, int]], found: NamePositions) -> None:
    """See that the transactions that tasks have prepared are still there, by task: the producer's id and epoch.

    The transactional id is not enough. Spark numbers attempts from 0 again when it repeats a stage, so two of them may
    have the same one, and the later has ended the transaction of the earlier.

    :raises EpochRefused: One of them was aborted. Nothing was committed by this driver.
    """
    if lost := find_lost(producers, found):
        raise _lost_error(identity, lost)


def find_lost(producers: Mapping[int, tuple[int, int]], found: NamePositions) -> list[int]:
    """Return the tasks whose transactions, by these producers, were aborted."""
    there = {(each.producer_id, each.producer_epoch) for each in found.stored if each.position.is_complete}
    return [task for task, producer in producers.items() if producer not in there]


def build_in_part(identity: EpochIdentity, lost: Collection[int]) -> EpochRefused:
    """The error that all tasks of an epoch are committed but those whose transactions were aborted."""
    return EpochRefused(
        f"the transaction of task {first_few([str(each) for each in sorted(lost)], _NAMED_MAX)} of epoch "
        f"{identity.epoch} of sink {identity.name!r} was aborted before all tasks were done, as it was open for too "
        "long; all others are committed",
        hint="Start the query again, with the same number of partitions: each time it writes what is left. A longer "
        "transactionTimeout, as far as transaction.max.timeout.ms of the brokers allows, needs fewer times.",
    )


def _lost_error(identity: EpochIdentity, tasks: Collection[int]) -> EpochRefused:
    return EpochRefused(
        f"the transaction of task {first_few([str(each) for each in sorted(tasks)], _NAMED_MAX)} of epoch "
        f"{identity.epoch} of sink {identity.name!r} was aborted before all tasks were done: it was open for too long, "
        "or another attempt has taken its place",
        hint="If no other run exists: raise transaction.max.timeout.ms of the brokers and the option "
        "transactionTimeout, write less at once, or set the option commit=task.",
    )
