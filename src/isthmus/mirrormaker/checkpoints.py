"""Checkpoints as MirrorMaker 2 emits them: where groups of the source would go on at the target."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.groups.plan import GroupPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.translation import TargetPosition, Translation, by_offset
from isthmus.kafka.admin.internal_topics import InternalTopics, is_missing
from isthmus.kafka.client import Client
from isthmus.kafka.log.contents import stored_records
from isthmus.kafka.transactions.appending import CurrentAppender
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import Document
from isthmus.loops.loop import LinkView
from isthmus.memory.links import now_ms
from isthmus.model.kafka.mirrormaker_records import Checkpoint, CheckpointKey, checkpoint_of
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.loop import Change

_NO_COPY: Final = frozenset({Standing.NOT_MIRRORED, Standing.MIRROR_ENDED})
KnownCheckpoints = dict[CheckpointKey, Checkpoint]


class CheckpointLoop:
    """Checkpoints of the groups that one link selects, each exact, and none before its data is durable.

    The topic is read first: a checkpoint that it has is not written again, and none goes back after a restart.
    """

    name = "mm2-checkpoints"

    def __init__(self) -> None:
        self._topics = InternalTopics(self.name)
        self._appender = CurrentAppender()
        self._known: KnownCheckpoints | None = None
        self._known_in: tuple[str, uuid.UUID | None] | None = None
        self._maps: LinkMaps | None = None
        self._documents: Mapping[str, Document] | None = None

    def interval_s(self, link: Link) -> float | None:
        """How often checkpoints that changed are written, in seconds."""
        return link.mm2.checkpoints_interval_s if link.mm2.checkpoints else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Whether the topic is missing at the target.

        :raises ClusterError: The target cannot be asked.
        """
        return await self._topics.look(view.target, view.link.mm2_names.checkpoints)

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Create the topic, and write the checkpoints that changed.

        :raises ClusterError: The target rejects them.
        """
        left = await self._topics.create(view.target, changes)
        topic = view.link.mm2_names.checkpoints
        if is_missing(topic, left):
            return left
        try:
            known = await self._read_back(view.target, topic)
            due = checkpoints_due(view, known, self._load_maps(view))
            if due:
                await self._appender.to(view.target, topic).append([one.record for one in due], now_ms=now_ms())
                known.update((one.key, one) for one in due)
        except ClusterError:
            # Some of it may have been written.
            self._known = None
            self._topics.doubt()
            raise
        return left

    async def aclose(self) -> None:
        """Close the connection."""
        self._appender.close()

    async def _read_back(self, target: Client, topic: str) -> KnownCheckpoints:
        """Return the checkpoints in the topic; they are read when the topic is a new one."""
        place = (topic, self._topics.topic_id(target, topic))
        if self._known is None or self._known_in != place:
            self._known, self._known_in = {}, None
            if place[1] is not None:
                self._known.update(await _read_checkpoints(target, topic))
                self._known_in = place
        return self._known

    def _load_maps(self, view: LinkView) -> LinkMaps:
        if self._maps is None or self._documents is not view.documents:
            self._maps, self._documents = LinkMaps(view.link.name, view.documents), view.documents
        self._maps.look()
        return self._maps


def checkpoints_due(view: LinkView, known: Mapping[CheckpointKey, Checkpoint], maps: LinkMaps) -> list[Checkpoint]:
    """Return the checkpoints of a link's groups that are to be written; `known` are those written last."""
    if view.groups is None:
        return []
    places = [(group.group, position) for group in view.groups.groups for position in _list_copied(group)]
    # A checkpoint is exact in each way of carrying positions.
    settings = replace(view.link.groups, way="mapped")
    own = [position for _, position in places if not position.is_returning]
    found = by_offset(settings, {_target_position(position) for position in own}, maps)
    due = []
    for group, position in places:
        offset = (
            _find_returning_offset(position) if position.is_returning else found.offsets.get(_target_position(position))
        )
        if offset is not None and (position.is_returning or _is_reached(view, position, offset, found)):
            checkpoint = _build_checkpoint(group, position, offset)
            if is_news(checkpoint, known.get(checkpoint.key), position.high_watermark):
                due.append(checkpoint)
    return due


def is_news(checkpoint: Checkpoint, previous: Checkpoint | None, log_end: int | None) -> bool:
    """Whether a checkpoint is to be written, by the last one of the same position and the end of the target's log.

    It goes back only if the group did at the source (as with MirrorMaker 2), or if the last one
    lies beyond the log, which is another one then.
    """
    if previous is None:
        return True
    if checkpoint.downstream < previous.downstream:
        is_other_log = log_end is not None and previous.downstream > log_end
        return is_other_log or checkpoint.upstream < previous.upstream
    return checkpoint != previous


def _list_copied(group: GroupPlan) -> Iterator[PositionPlan]:
    """Yield the positions in partitions that are copied."""
    for position in group.positions:
        if position.target_topic is not None and position.standing not in _NO_COPY and position.source.offset >= 0:
            yield position


def _find_returning_offset(position: PositionPlan) -> int | None:
    """Return the offset of a position on a copy of the target's own topic, if it is known (`groups/returning.py`)."""
    return None if position.standing is Standing.CATCHING_UP else position.translated


def _target_position(position: PositionPlan) -> TargetPosition:
    return position.target_key, position.source.offset


def _is_reached(view: LinkView, position: PositionPlan, offset: int, found: Translation) -> bool:
    """Whether all that lies before the position is durable at the target."""
    if _target_position(position) in found.unreached:
        return False
    if position.is_mapped:
        # The map has only records that the target has acknowledged.
        return True
    report = view.reports.get(LaneKey(*position.target_key))
    copied_end = -1 if report is None else report.position
    return offset <= max(copied_end, -1 if position.high_watermark is None else position.high_watermark)


def _build_checkpoint(group: str, position: PositionPlan, offset: int) -> Checkpoint:
    # There are no records before the beginning of the target's log.
    downstream = max(offset, position.log_start or 0)
    key = CheckpointKey(group, *position.target_key)
    return Checkpoint(key, position.source.offset, downstream, position.source.metadata)


async def _read_checkpoints(target: Client, topic: str) -> KnownCheckpoints:
    """Read the last checkpoint of each position; none without the right to read the topic, as MirrorMaker 2 does."""
    known: KnownCheckpoints = {}
    try:
        async for record in stored_records(target, topic):
            try:
                checkpoint = checkpoint_of(record)
            except ValueError:
                # Readers skip such a record as well.
                continue
            known[checkpoint.key] = checkpoint
    except NotAuthorized:
        return {}
    return known
