"""Finishes transactions that a follower has prepared, without their source.

Gateways forwarded their commits once all their records were at the follower, so each may be committed. A transaction
certainly is if its end has reached one of its partitions at the follower: then it gets the same end in all others. A
transaction without any end at the follower was seen by no client here, and is aborted, like all open ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import COMMIT, control_type
from isthmus.kafka.client import Client
from isthmus.kafka.log.leaders import leaders_of
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.transactions.aborting import Still, commit_mirrored, leaderless, meant_still, transactions_in
from isthmus.model.gateways.prepared import MaybeCommitted, PreparedCommit, PreparedPart, Unfinished
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState, lone_producer_id
from isthmus.model.naming import TargetTopicPartition

_TIMEOUT_S: Final = 10.0
_LEADER_S: Final = 30.0
"""How long to wait for the leader of a partition that may hold a commit: about the time of a broker's restart."""
_AGAIN_S: Final = 0.3


async def finish(
    client: Client, commits: Collection[PreparedCommit], topics: Collection[str], still: Still | None = None
) -> Unfinished:
    """Commit the `unfinished` transactions, once no link writes there any more; `still` is called just before, and
    limits the topics. Waits some seconds for a partition without a leader that may hold an end. Needs ALTER on the
    cluster, if there are any.

    :raises ClusterError: A transaction cannot be committed; a repeated call goes on.
    """
    deadline = Deadline(_LEADER_S)
    while True:
        is_last = deadline.has_passed
        try:
            found = await find_unfinished(client, commits, topics)
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


async def find_unfinished(client: Client, commits: Collection[PreparedCommit], topics: Collection[str]) -> Unfinished:
    """Find the transactions that are open in these topics with all their records, and that were committed at the
    source: an end in another partition proves it, or a partition without a leader may. Needs READ on the topics.

    :raises ClusterError: A leader does not answer.
    """
    topics_noted = {part.topic for commit in commits for part in commit.parts}
    # In this order: a partition that has a leader again by then may have the transaction open as well.
    without_leader = set(await leaderless(client, topics_noted))
    open_now = await transactions_in(client, topics_noted, term_s=_TIMEOUT_S)
    committed: dict[TargetTopicPartition, OpenTransaction] = {}
    unknown: list[MaybeCommitted] = []
    for commit in commits:
        left = {
            part: each for part in commit.parts for each in open_now if _is_prepared(each, part, commit.producer_id)
        }
        whole = {
            (part.topic, part.partition): each
            for part, each in left.items()
            if part.topic in topics and each.first_offset + each.held_records >= part.end
        }
        others = [part for part in commit.parts if part not in left] if whole else []
        silent = tuple(sorted(key for part in others if (key := (part.topic, part.partition)) in without_leader))
        readable = [part for part in others if (part.topic, part.partition) not in silent]
        if any([await _is_committed(client, part, commit.producer_id) for part in readable]):
            committed |= whole
        elif silent:
            unknown += [MaybeCommitted(each, silent) for each in whole.values()]
    return Unfinished(tuple(committed[key] for key in sorted(committed)), tuple(unknown))


def _is_prepared(each: OpenTransaction, part: PreparedPart, producer_id: int) -> bool:
    """Whether this open transaction is the one that was prepared in the partition."""
    return (
        each.state is TransactionState.MIRRORED
        and (each.topic, each.partition) == (part.topic, part.partition)
        and each.producer_id == lone_producer_id(producer_id)
        and part.begin <= each.first_offset < part.end
    )


async def _is_committed(client: Client, part: PreparedPart, producer_id: int) -> bool:
    """Whether the transaction prepared in a partition was committed there: by the first control record of its producer
    behind it, if records of the transaction precede it that no other control record has ended.

    :raises ClusterError: The partition cannot be read up to its end: an answer without records shows no end.
    """
    key = (part.topic, part.partition)
    _, without = leaders_of(await client.metadata([part.topic]), [key])
    if without.get(key) == codes.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    log = (await log_ranges(client, [key])).all()[key]
    # It begins there or later, or at the log start: deleted records prove nothing.
    span = OffsetRange(*key, max(part.begin, log.start), log.end)
    is_open, lone = False, lone_producer_id(producer_id)
    async with aclosing(LogReader(client, isolation=READ_UNCOMMITTED).read(span)) as answers:
        async for found in answers:
            for batch in (each.batch for each in found if each.batch.producer_id == lone):
                if not batch.is_control:
                    is_open = is_open or batch.base_offset < part.end
                elif batch.base_offset >= part.end:
                    return is_open and control_type(batch) == COMMIT
                else:
                    is_open = False
    return False
