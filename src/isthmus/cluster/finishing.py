"""Transactions that a follower has prepared, committed there without their source.

Their commits were let through once all their records were there, so that each may have been decided. One was for sure
if its end has come to the follower in one of its partitions: it gets the same end in all others. Of one whose end has
come to none nobody here has seen anything, and it is aborted, as all that is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final

from isthmus.cluster.aborting import Still, commit_mirrored, leaderless, meant_still, transactions_in
from isthmus.cluster.offsets import leaders_of, log_ranges, may_pass
from isthmus.deadline import Deadline
from isthmus.errors import ClusterError
from isthmus.model.prepared import MaybeCommitted, PreparedCommit, PreparedPart, Unfinished
from isthmus.model.rights import on_topic
from isthmus.model.transactions import OpenTransaction, TransactionState, lone_producer_id
from isthmus.wire import codes
from isthmus.wire.aborted import COMMIT, control_type
from isthmus.wire.batch import Batch, scan
from isthmus.wire.client import Client
from isthmus.wire.fetch import Want, fetch_once
from isthmus.wire.offsets import READ_UNCOMMITTED, PartitionKey

_TIMEOUT_S: Final = 10.0
_LEADER_S: Final = 30.0
"""So long a partition may have no leader that could tell of a commit: about what a broker needs to start again."""
_AGAIN_S: Final = 0.3
_BYTES: Final = 4 << 20


async def finish(
    client: Client, commits: Collection[PreparedCommit], topics: Collection[str], still: Still | None = None
) -> Unfinished:
    """Commit those that are `unfinished`, once nobody writes there any more: which topics that holds for `still` is
    asked just before. A partition without a leader that may tell of one is waited for, some seconds. Needs ALTER on the
    cluster, if there are any.

    :raises ClusterError: One of them cannot be committed; a repeated call goes on.
    """
    deadline = Deadline(_LEADER_S)
    while True:
        is_last = deadline.has_passed
        try:
            found = await unfinished(client, commits, topics)
        except ClusterError as error:
            if is_last or not may_pass(error):
                raise
        else:
            if is_last or not found.unknown:
                break
        await asyncio.sleep(_AGAIN_S)
    if found.committed and still is not None:
        found = found._replace(committed=tuple(meant_still(found.committed, await still())))
    await commit_mirrored(client, found.committed)
    return found


async def unfinished(client: Client, commits: Collection[PreparedCommit], topics: Collection[str]) -> Unfinished:
    """The transactions that are open in some topics, with all their records, and were committed at the source, as their
    end in another partition tells, or may have been, as that has no leader. Needs READ on the topics.

    :raises ClusterError: A leader does not tell.
    """
    topics_noted = {part.topic for commit in commits for part in commit.parts}
    # In this order: one that has a leader again by now may have the transaction open as well.
    without_leader = set(await leaderless(client, topics_noted))
    open_now = await transactions_in(client, topics_noted, term_s=_TIMEOUT_S)
    committed: dict[PartitionKey, OpenTransaction] = {}
    unknown: list[MaybeCommitted] = []
    for commit in commits:
        left = {part: each for part in commit.parts for each in open_now if _is_left(each, part, commit.producer_id)}
        whole = {
            (part.topic, part.partition): each
            for part, each in left.items()
            if part.topic in topics and each.first_offset + each.held_records >= part.end
        }
        others = [part for part in commit.parts if part not in left] if whole else []
        silent = tuple(sorted(without_leader.intersection((part.topic, part.partition) for part in others)))
        told = [part for part in others if (part.topic, part.partition) not in silent]
        if any([await _is_committed(client, part, commit.producer_id) for part in told]):
            committed |= whole
        elif silent:
            unknown += [MaybeCommitted(each, silent) for each in whole.values()]
    return Unfinished(tuple(committed[key] for key in sorted(committed)), tuple(unknown))


def _is_left(each: OpenTransaction, part: PreparedPart, producer_id: int) -> bool:
    """Whether this is the transaction that was prepared in a partition."""
    return (
        each.state is TransactionState.MIRRORED
        and (each.topic, each.partition) == (part.topic, part.partition)
        and each.producer_id == lone_producer_id(producer_id)
        and part.begin <= each.first_offset < part.end
    )


async def _is_committed(client: Client, part: PreparedPart, producer_id: int) -> bool:
    """Whether the transaction that was prepared in a partition has ended there by a commit: the first end of its
    producer behind it, if there are records of it before that no other end has ended.
    """
    is_open, lone = False, lone_producer_id(producer_id)
    async for batch in _batches(client, part):
        if batch.producer_id != lone:
            continue
        if not batch.is_control:
            is_open = is_open or batch.base_offset < part.end
        elif batch.base_offset >= part.end:
            return is_open and control_type(batch) == COMMIT
        else:
            is_open = False
    return False


async def _batches(client: Client, part: PreparedPart) -> AsyncIterator[Batch]:
    """What a partition has from where a transaction may begin, or from where its log does: what was deleted proves
    nothing.

    :raises ClusterError: Its leader does not tell.
    """
    key, at = (part.topic, part.partition), part.begin
    while True:
        metadata = await client.metadata([part.topic])
        leaders, without = leaders_of(metadata, [key])
        if without.get(key) == codes.UNKNOWN_TOPIC_OR_PARTITION:
            return
        what = f"reading {part.topic}-{part.partition} at offset {at}"
        for code in without.values():
            raise codes.error_for(code, what, on_topic("READ", part.topic), cluster=client.cluster.alias)
        wants = {key: Want(metadata.topics[part.topic].topic_id, at, -1, -1)}
        connection = await client.connection(next(iter(leaders)))
        (fetched,) = await fetch_once(
            connection, wants, isolation=READ_UNCOMMITTED, bytes_max=_BYTES, timeout_s=_TIMEOUT_S
        )
        if fetched.error_code == codes.OFFSET_OUT_OF_RANGE:
            found_log = await log_ranges(client, [key])
            if (error := found_log.errors.get(key)) is not None:
                raise error
            log = found_log.values.get(key)
            if log is None or log.start <= at:
                return
            at = log.start
            continue
        codes.raise_for_code(fetched.error_code, what, on_topic("READ", part.topic), cluster=client.cluster.alias)
        found = list(_scanned(fetched.records, at))
        if not found:
            return
        for batch in found:
            yield batch
        at = found[-1].offset_end


def _scanned(records: bytes, at: int) -> Iterable[Batch]:
    return (batch for batch in scan(records) if batch.offset_end > at)
