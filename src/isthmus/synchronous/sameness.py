"""Whether the follower of a synchronous link has the records of its source, where an offset alone does not show it.

A source topic that was created again, or whose log was cut, has new records at offsets that the follower had before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.same.judgement import is_copy
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.tail import NoBatch, batches_before
from isthmus.model.naming import SourceTopicPartition, TargetTopicPartition

_STEPS_MAX: Final = 32
"""The number of transaction ends, and of batches of aborted records, that are looked behind."""


async def same_before(
    source: Client, target: Client, ends: Mapping[SourceTopicPartition, tuple[TargetTopicPartition, int]]
) -> dict[SourceTopicPartition, bool | None]:
    """Compare the last record before an offset on both sides, by partition of the source; `ends` has the partition of
    the target, and the offset. Transaction ends look alike for different transactions: the records before them decide.
    `None` where one side has no record there that decides, and where transactions may be laid out differently as far as
    was looked. Partitions that cannot be read now on one side are left out.

    :raises ClusterError: One of the clusters did not answer.
    """
    found, left = dict[SourceTopicPartition, bool | None](), dict(ends)
    for _ in range(_STEPS_MAX):
        here, there = await asyncio.gather(
            batches_before(source, {key: end for key, (_, end) in left.items()}),
            batches_before(target, dict(left.values())),
        )
        earlier = {}
        for key, (target_key, end) in left.items():
            source_batch, target_batch = here.get(key), there.get(target_key)
            if source_batch is None or target_batch is None:
                # The batches behind it were alike, which proves nothing by itself.
                found.pop(key, None)
                continue
            found.setdefault(key, None)
            if isinstance(source_batch, NoBatch) or isinstance(target_batch, NoBatch):
                continue
            is_same = _is_same(source_batch, target_batch, end - 1)
            if is_same is not None:
                found[key] = is_same
            if is_same is not False and _is_unclear(source_batch, target_batch, end - 1):
                earlier[key] = target_key, source_batch.base_offset
        if not earlier:
            break
        left = earlier
    return found


def _is_same(source: Batch, target: Batch, offset: int) -> bool | None:
    try:
        if not (_stands(source, offset) and _stands(target, offset)):
            # An offset that a log cleaner has removed proves nothing.
            return None
        if is_copy(target, source, offset, is_compacted=False):
            return True
    except ValueError:
        return None
    # Aborted records may be left out at the target.
    return None if target.is_control and source.is_transactional and not source.is_control else False


def _is_unclear(source: Batch, target: Batch, offset: int) -> bool:
    """Whether the records before have to be compared: neither side has a record there that decides."""
    return 0 < source.base_offset <= offset and target.base_offset <= offset and target.is_control


def _stands(batch: Batch, offset: int) -> bool:
    """Whether the batch has a record at the offset, or the end of a transaction."""
    if batch.base_offset > offset:
        return False
    return batch.is_control or any(each.offset == offset for each in records_of(batch))
