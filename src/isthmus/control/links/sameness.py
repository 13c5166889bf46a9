"""Whether the follower of a synchronous link has what its source has, where an offset alone does not tell.

A source topic that was made anew, or whose log went back, has new records at offsets that the follower had before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from isthmus.cluster.tail import NoBatch, batches_before
from isthmus.lane.identity.judgement import is_copy
from isthmus.lane.rebatch import records_of
from isthmus.wire.batch import Batch
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_STEPS_MAX: Final = 32
"""So many ends of transactions, and batches of what was aborted, are looked behind."""


async def same_before(
    source: Client, target: Client, ends: Mapping[PartitionKey, tuple[PartitionKey, int]]
) -> dict[PartitionKey, bool | None]:
    """Whether the last record before an offset is the same on both sides, by partition of the source; `ends` has that
    of the target, and the offset. Ends of transactions are alike for different ones: what stands before them tells.
    `None` where one side has nothing there that would tell, and where transactions may be there in another way as far
    as was looked. Left out is what cannot be read now on one side.

    :raises ClusterError: One of the clusters did not answer.
    """
    found, left = dict[PartitionKey, bool | None](), dict(ends)
    for _ in range(_STEPS_MAX):
        here, there = await asyncio.gather(
            batches_before(source, {key: end for key, (_, end) in left.items()}),
            batches_before(target, dict(left.values())),
        )
        earlier = {}
        for key, (target_key, end) in left.items():
            source_batch, target_batch = here.get(key), there.get(target_key)
            if source_batch is None or target_batch is None:
                # What stands behind it was alike, and proves nothing by itself.
                found.pop(key, None)
                continue
            found.setdefault(key, None)
            if isinstance(source_batch, NoBatch) or isinstance(target_batch, NoBatch):
                continue
            told = _is_same(source_batch, target_batch, end - 1)
            if told is not None:
                found[key] = told
            if told is not False and _is_unclear(source_batch, target_batch, end - 1):
                earlier[key] = target_key, source_batch.base_offset
        if not earlier:
            break
        left = earlier
    return found


def _is_same(source: Batch, target: Batch, offset: int) -> bool | None:
    try:
        if not (_stands(source, offset) and _stands(target, offset)):
            # What a log cleaner has taken tells nothing.
            return None
        if is_copy(target, source, offset, is_compacted=False):
            return True
    except ValueError:
        return None
    # What was aborted may be left out there.
    return None if target.is_control and source.is_transactional and not source.is_control else False


def _is_unclear(source: Batch, target: Batch, offset: int) -> bool:
    """Whether what stands before is to be looked at: both have no record there that would tell."""
    return 0 < source.base_offset <= offset and target.base_offset <= offset and target.is_control


def _stands(batch: Batch, offset: int) -> bool:
    """Whether it has a record there, or the end of a transaction."""
    if batch.base_offset > offset:
        return False
    return batch.is_control or any(each.offset == offset for each in records_of(batch))
