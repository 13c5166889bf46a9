"""How far a distributor may go, stated at its source before it goes there: see `model.switching`.

Its target is one of several leaves, and may be gone one day without a word. What the source says then is all there is
to know of how far it went, so it has to be true at any time: nothing is sent that lies behind what is stated. It is
stated far enough ahead that nobody waits for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from isthmus.control.lanes.maps import lane_cursors
from isthmus.control.links.memory import remembered
from isthmus.control.links.switching import SWITCH_ROLE, read_allowances, read_choice
from isthmus.control.loops.loop import LinkView
from isthmus.errors import ClusterError, Fenced
from isthmus.ledger.documents import AllowanceDocument, SwitchDocument, TopicDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.topic import on_topic
from isthmus.ledger.view import Bookmark
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.offsets import Cursor
from isthmus.model.switching import NO_OFFSET, Allowance, BeginEpoch, LaneBegin, allowances

_INTERVAL_S: Final = 1.0
_RATE_S: Final = 3.0
_REST_S: Final = 3.0
"""Whoever fenced this one may not have written yet what it wants."""
_MUTED_S: Final = 3.0
"""So long it waits behind a quota: allowances are not much further ahead."""
_AGAIN_S: Final = 30.0
"""How old what is stated may be: leases read the source's ledger from there on."""
_Places = dict[tuple[str, int], int]


class _Place(NamedTuple):
    """Where a lane is; how far it is by the map of its target (`written_to`), which may be a second older; and in which
    leader epoch of the source what it copied up to there was, if that is known.
    """

    at: LaneBegin
    written_to: int
    epoch: BeginEpoch | None = None


class AllowanceLoop:
    """States how far one distributor may go."""

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
        """Nothing at the target: it is the source that is told."""
        return ()

    async def apply(self, view: LinkView, _: Sequence[Change]) -> Sequence[Change]:
        """Have the source say how far lanes may go, if more is to be said.

        :raises ClusterError: Its ledger cannot be read or written.
        """
        now, places = time.monotonic(), tuple(_places(view))
        rates = self._rates(now, {(at.topic, at.partition): at.offset for at, *_ in places})
        try:
            if now >= self._rests_until:
                await self._take_over(view)
            lanes, is_due = allowances(self._stated, [each.at for each in places], rates)
            written = {(at.topic, at.partition): written_to for at, written_to, _ in places}
            lanes = tuple(
                each._replace(position=written.get((each.topic, each.partition), each.position)) for each in lanes
            )
            if self._writer is not None and (is_due or now - self._stated_at > _AGAIN_S):
                epochs = tuple(each.epoch for each in places if each.epoch is not None)
                await self._state(self._writer, view, lanes, epochs)
                self._stated, self._stated_at = lanes, now
        except Fenced:
            # Another leaf was asked for, or somebody else runs the distributor by now: a later look tells.
            self._rests_until = now + _REST_S
            await self.aclose()
        except ClusterError:
            # What was stated by then is read again first.
            await self.aclose()
            raise
        return ()

    async def aclose(self) -> None:
        """State nothing more."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _take_over(self, view: LinkView) -> None:
        """Be the one who states it, unless the source says that another leaf is to be the target."""
        if self._writer is not None or not await self._is_chosen(view):
            return
        link = view.link
        writer = FencedWriter(view.source, link.name, role=SWITCH_ROLE)
        try:
            await writer.take_over()
            # Whoever chooses another leaf from now on fences this writer.
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
        """Whether the source has this target be the one, and nobody forces another one."""
        found = await read_choice(view.source, view.link.name)
        return found is None or not found.choice.bars(view.link.target.alias)

    async def _state(
        self, writer: FencedWriter, view: LinkView, lanes: tuple[Allowance, ...], epochs: tuple[BeginEpoch, ...]
    ) -> None:
        # Leases that begin later read from here on: no choice of another leaf lies before it that they would not obey.
        mark = Bookmark()
        (await remembered(view.source)).mark(mark)
        document = AllowanceDocument(link=view.link.name, target=view.link.target.alias, lanes=lanes, epochs=epochs)
        # Who chose it may have been killed before that was committed: it was read all the same, and has to stay.
        documents = [document] if self._chosen is None else [document, self._chosen]
        if writer.muted_until > time.monotonic() + _MUTED_S:
            writer.renew()
        await on_topic(view.source, partial(writer.append, documents))
        self._chosen = None
        kept = view.source.companion(Bookmark)
        kept.position, kept.topic_id = mark.position, mark.topic_id

    def _rates(self, now: float, places: _Places) -> dict[tuple[str, int], float]:
        """Records per second that lanes took lately."""
        self._seen.append((now, places))
        while len(self._seen) > 1 and now - self._seen[1][0] >= _RATE_S:
            self._seen.popleft()
        then, before = self._seen[0]
        elapsed_s = max(now - then, _INTERVAL_S)
        return {key: (offset - before.get(key, offset)) / elapsed_s for key, offset in places.items()}


def _places(view: LinkView) -> Iterator[_Place]:
    """Where lanes are, as far as that is known: of those too that do not run now, but did once."""
    cursors = lane_cursors(view.link.name, view.documents)
    for topic in view.plan.topics:
        decisions = {each.partition: each.source for each in topic.partitions}
        for lane in topic.lanes:
            report, cursor = view.reports.get(lane.key), cursors.pop(lane.key, None)
            source = decisions.get(lane.partition)
            begun = None if cursor is None else lane.begun(cursor)
            written_to = max(
                lane.begin_offset if begun is None else begun.source_offset, 0 if source is None else source.start
            )
            told = max(written_to, NO_OFFSET if report is None else report.position)
            yield _place(LaneBegin(lane.source_topic, lane.source_topic_id, lane.partition, told), written_to, begun)
    for key, cursor in cursors.items():
        known = view.documents.get(f"{TopicDocument.KIND}/{view.link.name}/{key.topic}")
        if isinstance(known, TopicDocument):
            offset = cursor.source_offset
            at = LaneBegin(known.source_topic, known.source_topic_id, key.partition, offset)
            yield _place(at, offset, cursor)


def _place(at: LaneBegin, written_to: int, cursor: Cursor | None) -> _Place:
    if cursor is None or cursor.source_epoch < 0:
        return _Place(at, written_to)
    return _Place(at, written_to, BeginEpoch(*at[:3], cursor.copied_to, cursor.source_epoch))
