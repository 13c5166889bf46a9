"""A leaf that a distributor left by force gets the records it lacks: see `model.switching`.

The distributor goes back to it for that, up to where another leaf has begun, and then on to its target. Until then the
leaf is reported as in doubt. If it cannot get records for a reason that waiting does not change it stays in doubt, but
does not hold up the distributor: it is tried again later (`running.forcing`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.loops.loop import LinkView
from isthmus.memory.switching import write_choice
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic
from isthmus.model.problem import Problem
from isthmus.model.text.wording import format_count
from isthmus.model.trees.switching import Lack, LaneBegin, TargetChoice, begin_of, still_lacking

_INTERVAL_S: Final = 1.0
_TELL_S: Final = 5.0
_PATIENCE_S: Final = 15.0
"""A wait is reported only when it takes longer."""
_GONE_S: Final = 5.0
"""A topic is gone once the source does not know it in several looks, the last so long after the first."""
_log = logging.getLogger(__name__)


class ReconcilingLoop:
    """Waits until a leaf has the records it lacked, and reports leaves that may lack some."""

    name = "reconciling"

    def __init__(self, gone_s: float = _GONE_S) -> None:
        self._gone_s = gone_s
        self._missing: dict[SourceTopic, float] = {}
        self._since: float | None = None
        self._stuck: tuple[Lack, ...] | None = None

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds, while something is in doubt."""
        role = link.distributor
        if role is None or (role.ends is None and not role.doubts):
            return None
        return _TELL_S if role.ends is None else _INTERVAL_S

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the change that the leaf has all that it can get now, or the problem that keeps it in doubt.

        :raises ClusterError: The source cannot be asked for its topics.
        """
        role = view.link.distributor
        if role is None:
            return ()
        if role.ends is None:
            return [_change(view, each.leaf, _doubt_problem(each.leaf, each.records_max)) for each in role.doubts]
        now, self._stuck = time.monotonic(), None
        self._since = now if self._since is None else self._since
        lanes = [lane for topic in view.plan.topics for lane in topic.lanes]
        selected = (each for each in role.ends if view.link.topics.target_of(each.topic) is not None)
        found = still_lacking(selected, lanes, view.reports)
        if found and now - self._since < _PATIENCE_S:
            # A broker that has just started may not know a topic, and a lane may end before it has all.
            return ()
        if all(each.is_stuck for each in found):
            self._stuck = await self.there(view.source, found)
        else:
            self._missing.clear()
        lack = next(iter(found if self._stuck is None else self._stuck), None)
        alias, hint = view.link.target.alias, "Its distributor goes on with its target when the leaf has that."
        return [_change(view, alias, None if lack is None else Problem(f"{alias} {lack.why}", hint))]

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Write to the source that the leaf lacks nothing any more, or only what it cannot get now.

        :raises ClusterError: Its ledger cannot be written.
        """
        role, stuck = view.link.distributor, self._stuck
        if not changes or role is None or role.ends is None or stuck is None:
            return changes
        leaf = view.link.target.alias
        lacking = tuple(each.begin for each in stuck)
        await write_choice(
            view.source, view.link.name, partial(finish_choice, leaf=leaf, ends=role.ends, lacking=lacking)
        )
        if stuck:
            _log.warning("link %s: %s stays IN_DOUBT: it %s", view.link.name, leaf, stuck[0].why)
        else:
            _log.warning("link %s: %s has the messages that it lacked", view.link.name, leaf)
        return [change for change in changes if change.problem is not None]

    async def there(self, source: Client, found: Iterable[Lack]) -> tuple[Lack, ...] | None:
        """Find what the source still has of the records that a leaf lacks: a deleted topic has none. `None` while a
        topic has been missing for less than `gone_s`: a broker that has just started may not know it.

        :raises ClusterError: The source does not answer.
        """
        lacks = {each.begin: each for each in found}
        topics = (await source.metadata(sorted({each.topic for each in lacks}))).topics if lacks else {}
        unknown = codes.UNKNOWN_TOPIC_OR_PARTITION
        ids = {name: topic.topic_id for name, topic in topics.items() if topic.error_code != unknown}
        now = time.monotonic()
        self._missing = {each.topic: self._missing.get(each.topic, now) for each in lacks if each.topic not in ids}
        if any(now - since < self._gone_s for since in self._missing.values()):
            return None
        return tuple(
            lack
            for each, lack in lacks.items()
            if each.topic in ids and begin_of([each], each.topic, ids[each.topic], each.partition) == each.offset
        )


def finish_choice(
    choice: TargetChoice | None, leaf: str, ends: Sequence[LaneBegin], lacking: Collection[LaneBegin]
) -> TargetChoice | None:
    """Return the choice after a leaf has got all that it can get up to these offsets; `None` if the leaf was left again
    since, with other offsets.
    """
    doubt = None if choice is None else choice.finishing
    if choice is None or doubt is None or (doubt.leaf, doubt.ends) != (leaf, tuple(ends)):
        return None
    return choice.reconcile(lacking)


def _change(view: LinkView, leaf: str, problem: Problem | None) -> Change:
    subject = f"link {view.link.name}"
    return Change(
        loop=ReconcilingLoop.name, subject=subject, setting="in doubt", before=leaf, after=None, problem=problem
    )


def _doubt_problem(leaf: str, records: int) -> Problem:
    return Problem(
        f"{leaf} is IN_DOUBT: it was left while it was gone, and may lack up to {format_count(records, 'record')}",
        "It gets them by itself when it is back, and so do the other leaves of its subtree. What it cannot take yet is "
        "tried again every ten minutes; the log of isthmus run states why.",
    )
