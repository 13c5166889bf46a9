"""A leaf that a distributor left by force gets what it lacks: see `model.switching`.

The distributor goes back to it for that, up to where another leaf has begun, and then on to its target. Until then the
leaf is in doubt, and says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final

from isthmus.control.links.switching import write_choice
from isthmus.control.loops.loop import LinkView
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import Problem
from isthmus.model.switching import LaneBegin, TargetChoice, begin_of
from isthmus.model.wording import counted

_INTERVAL_S: Final = 1.0
_TELL_S: Final = 5.0
_PATIENCE_S: Final = 15.0
"""What is waited for is told only when it takes longer."""
_log = logging.getLogger(__name__)


class ReconcilingLoop:
    """Sees one distributor through what a leaf lacks, and tells of leaves that may lack something."""

    name = "reconciling"

    def __init__(self) -> None:
        self._since: float | None = None

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds, while something is in doubt."""
        role = link.distributor
        if role is None or (role.ends is None and not role.doubts):
            return None
        return _TELL_S if role.ends is None else _INTERVAL_S

    async def look(self, view: LinkView) -> Sequence[Change]:
        """That the leaf lacks nothing any more, or what is still in doubt."""
        role = view.link.distributor
        if role is None:
            return ()
        if role.ends is None:
            return [self._change(view, each.leaf, _doubted(each.leaf, each.records_max)) for each in role.doubts]
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        lacking = next(_lacking(view, role.ends), "")
        if lacking and now - self._since < _PATIENCE_S:
            return ()
        hint = "Its distributor goes on with its target when the leaf has that."
        return [self._change(view, view.link.target.alias, Problem(lacking, hint) if lacking else None)]

    def _change(self, view: LinkView, leaf: str, problem: Problem | None) -> Change:
        subject = f"link {view.link.name}"
        return Change(loop=self.name, subject=subject, setting="in doubt", before=leaf, after=None, problem=problem)

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Have the source say that the leaf lacks nothing any more.

        :raises ClusterError: Its ledger cannot be written.
        """
        if not changes or changes[0].problem is not None:
            return changes
        leaf = view.link.target.alias

        def reconciled(choice: TargetChoice | None) -> TargetChoice | None:
            return choice.reconciled() if choice is not None and choice.finishes == leaf else None

        await write_choice(view.source, view.link.name, reconciled)
        _log.warning("link %s: %s has what it lacked", view.link.name, leaf)
        return ()


def _doubted(leaf: str, records: int) -> Problem:
    return Problem(
        f"{leaf} is IN_DOUBT: it was left while it was gone, and may lack up to {counted(records, 'record')}",
        "It gets them by itself when it is back, and so do the other leaves of its subtree.",
    )


def _lacking(view: LinkView, ends: Sequence[LaneBegin]) -> Iterator[str]:
    """What the leaf has not got yet. What the source does not have any more it cannot get."""
    topics = {topic.source_topic: topic for topic in view.plan.topics}
    for topic in topics.values():
        of_topic = [each for each in ends if each.topic == topic.source_topic]
        lanes = {lane.partition: lane for lane in topic.lanes}
        for each in of_topic:
            lane = lanes.get(each.partition)
            if lane is None:
                yield f"{each.topic}-{each.partition} cannot be copied now"
            elif begin_of([each], lane.source_topic, lane.source_topic_id, lane.partition) == each.offset:
                report = view.reports.get(lane.key)
                if report is None or (report.position < each.offset and not report.state.is_terminal):
                    at = "nothing" if report is None or report.position < 0 else f"what comes before {report.position}"
                    yield f"{view.link.target.alias} has {at} of {lane.key}, and gets it up to {each.offset}"
