"""The allowance of a distributor, written to its source before the distributor goes so far: see `model.switching`.

Its target is one of several leaves, and may be lost at any time. Then only the source has how far the distributor went,
so the allowance has to hold at any time: no record beyond it is sent. It is far enough ahead that no lane waits for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from isthmus.errors import ClusterError, Fenced
from isthmus.lanes.maps import lane_cursors
from isthmus.ledger.documents.kinds import AllowanceDocument, SwitchDocument, TopicDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.topic import on_topic
from isthmus.ledger.view import Bookmark
from isthmus.loops.loop import LinkView
from isthmus.memory.links import read_ledger
from isthmus.memory.switching import SWITCH_ROLE, read_allowances, read_choice
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopicPartition
from isthmus.model.offsets import Cursor
from isthmus.model.trees.switching import NO_OFFSET, Allowance, BeginEpoch, LaneBegin, allowances

_INTERVAL_S: Final = 1.0
_RATE_S: Final = 3.0
_REST_S: Final = 3.0
"""How long to rest after being fenced: the new writer may not have written its documents yet."""
_MUTED_S: Final = 3.0
"""The longest wait behind a quota: allowances are not much further ahead."""
_AGAIN_S: Final = 30.0
"""How old the written allowance may be: leases read the source's ledger from there on."""
_Places = dict[SourceTopicPartition, int]


class _Place(NamedTuple):
    """The position of a lane; its position by the map of its target (`written_to`), which may be a second older; and
    the leader epoch of the source in which the records up to there were, if that is known.
    """

    at: LaneBegin
    written_to: int
    epoch: BeginEpoch | None = None


class AllowanceLoop:
    """Writes the allowance of one distributor."""

    name = "allowance"

    def __init__(self) -> None:
        self._writer: FencedWriter | None = None
        self._stated: tuple[Allowance, ...] = ()
        self._chosen: SwitchDocument | None = None
        self._stated_at = self._rests_until = 0.0
        self._seen: deque[tuple[float, _Places]] = deque()

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds, where the subtree has another leaf."""
        return _INTERVAL_S if link.distributor is not None and link.distributor.has_allowance else None

    async def look(self, _: LinkView) -> Sequence[Change]:
        """Return nothing: the allowance is written to the source, not to the target."""
        return ()

    async def apply(self, view: LinkView, _: Sequence[Change]) -> Sequence[Change]:
        """Write to the source how far lanes may go, if that is due.

        :raises ClusterError: Its ledger cannot be read or written.
        """
        now, places = time.monotonic(), tuple(_places(view))
        rates = self._rates(now, {(at.topic, at.partition): at.offset for at, *_ in places})
        try:
            if now >= self._rests_until:
                await self._begin_stating(view)
            lanes, is_due = allowances(self._stated, [each.at for each in places], rates)
            written = {(at.topic, at.partition): written_to for at, written_to, _ in places}
            lanes = tuple(
                each._replace(position=written.get((each.topic, each.partition), each.position)) for each in lanes
            )
            if self._writer is not None and (is_due or now - self._stated_at > _AGAIN_S):
                epochs = tuple(each.epoch for each in places if each.epoch is not None)
                await self._write_statement(self._writer, view, lanes, epochs)
                self._stated, self._stated_at = lanes, now
        except Fenced:
            # Another leaf was chosen, or another controller runs the distributor by now: a later look tells.
            self._rests_until = now + _REST_S
            await self.aclose()
        except ClusterError:
            # The last written allowance has to be read again first.
            await self.aclose()
            raise
        return ()

    async def aclose(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _begin_stating(self, view: LinkView) -> None:
        """Take over as the writer of the allowance, unless the source has another leaf as the target."""
        if self._writer is not None or not await self._is_chosen(view):
            return
        link = view.link
        writer = FencedWriter(view.source, link.name, role=SWITCH_ROLE)
        try:
            await writer.take_over()
            # A later choice of another leaf fences this writer.
            async with writer.looking():
                if await self._is_chosen(view):
                    self._chosen = await read_choice(view.source, link.name)
                    self._stated = await read_allowances(view.source, link.name, link.target.alias) or ()
                    self._stated_at = -_AGAIN_S
                    self._writer = writer
        finally:
            if self._writer is not writer:
                writer.close()

    async def _is_chosen(self, view: LinkView) -> bool:
        """Whether the source has this target as the chosen one, and no other one is being forced."""
        found = await read_choice(view.source, view.link.name)
        return found is None or not found.choice.bars(view.link.target.alias)

    async def _write_statement(
        self, writer: FencedWriter, view: LinkView, lanes: tuple[Allowance, ...], epochs: tuple[BeginEpoch, ...]
    ) -> None:
        # Later leases read the ledger from here on: an earlier choice of another leaf is obeyed already.
        mark = Bookmark()
        (await read_ledger(view.source)).mark(mark)
        document = AllowanceDocument(link=view.link.name, target=view.link.target.alias, lanes=lanes, epochs=epochs)
        # The process that chose it may have been killed before the commit: the choice was read, and has to stay.
        documents = [document] if self._chosen is None else [document, self._chosen]
        if writer.muted_until > time.monotonic() + _MUTED_S:
            writer.renew()
        await on_topic(view.source, partial(writer.append, documents))
        self._chosen = None
        kept = view.source.companion(Bookmark)
        kept.position, kept.topic_id = mark.position, mark.topic_id

    def _rates(self, now: float, places: _Places) -> dict[SourceTopicPartition, float]:
        """Return the records per second that lanes copied lately."""
        self._seen.append((now, places))
        while len(self._seen) > 1 and now - self._seen[1][0] >= _RATE_S:
            self._seen.popleft()
        then, before = self._seen[0]
        elapsed_s = max(now - then, _INTERVAL_S)
        return {key: (offset - before.get(key, offset)) / elapsed_s for key, offset in places.items()}


def _places(view: LinkView) -> Iterator[_Place]:
    """Yield the known positions of lanes, also of those that no longer run."""
    cursors = lane_cursors(view.link.name, view.documents)
    for topic in view.plan.topics:
        decisions = {each.partition: each.source for each in topic.partitions}
        for lane in topic.lanes:
            report, cursor = view.reports.get(lane.key), cursors.pop(lane.key, None)
            source = decisions.get(lane.partition)
            begun = None if cursor is None else lane.find_start(cursor)
            written_to = max(
                lane.begin_offset if begun is None else begun.source_offset, 0 if source is None else source.start
            )
            at = max(written_to, NO_OFFSET if report is None else report.position)
            yield _place(LaneBegin(lane.source_topic, lane.source_topic_id, lane.partition, at), written_to, begun)
    for key, cursor in cursors.items():
        known = TopicDocument.find(view.documents, view.link.name, key.topic)
        if known is not None:
            offset = cursor.source_offset
            begin = LaneBegin(known.source_topic, known.source_topic_id, key.partition, offset)
            yield _place(begin, offset, cursor)


def _place(at: LaneBegin, written_to: int, cursor: Cursor | None) -> _Place:
    if cursor is None or cursor.source_epoch < 0:
        return _Place(at, written_to)
    return _Place(at, written_to, BeginEpoch(*at[:3], cursor.copied_to, cursor.source_epoch))
