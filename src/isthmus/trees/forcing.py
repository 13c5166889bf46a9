"""Move distributors off a leaf that is gone: by an operator's request, or by themselves where the tree sets a time.

Every process that runs the tree reads the ledgers of its sources, and does what is due; the first one to come does it.
All state is in the ledgers: see `model.switching`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from isthmus.errors import IsthmusError
from isthmus.kafka.client import Client
from isthmus.memory.declared import Declared
from isthmus.memory.switching import Choose, leave, read_allowances, replace_choice, wish_for_leaf, write_choice
from isthmus.model.configuration import Configuration
from isthmus.model.trees.switching import TargetChoice
from isthmus.model.trees.tree import Distributor
from isthmus.spark.leases.tenure import REVOCATION_S

BACK_S: Final = 5.0
"""A leaf that was gone has to be back for so long before it is asked for anything."""
GONE_S: Final = 15.0
"""A leaf that gets what it lacks may be away for so long before its distributor continues without it."""
AGAIN_S: Final = 600.0
"""A leaf that could not take what it lacks, and was there all the time, is retried after so long."""
_log = logging.getLogger(__name__)


class TargetKeeper:
    """The actions of one process for leaves that are gone, or back."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    async def keep(
        self,
        configuration: Configuration,
        declared: Declared,
        client: Callable[[str], Client],
        is_run: Callable[[str], bool],
    ) -> None:
        """Do what is due, by what the clusters have just reported. Failures are retried at the next look; nothing is
        raised.

        `is_run` returns whether this process runs a link: of others it does not know why their targets are silent.
        """
        now = time.monotonic()
        for alias in (cluster.alias for cluster in configuration.clusters):
            self._note(now, ("away", alias), holds=alias in declared.away)
            self._note(now, ("there", alias), holds=declared.is_there(alias))
        for settings in configuration.trees:
            after_s = settings.switch_after_s
            for each in settings.tree.by_itself.distributors:
                if len(each.leaves) > 1 and declared.is_there(each.cluster):
                    choice = declared.choices.get((each.cluster, each.name))
                    known = choice if choice is not None and choice.is_of(each.leaves) else None
                    source = client(each.cluster)
                    try:
                        await self._do(source, each, known, now, after_s if is_run(each.name) else None)
                    except IsthmusError as error:
                        _log.warning("%s: %s", each.name, error)

    def _note(self, now: float, what: tuple[str, ...], *, holds: bool) -> None:
        if not holds:
            self._since.pop(what, None)
        else:
            self._since.setdefault(what, now)

    def _held_s(self, now: float, *what: str) -> float:
        """Return for how long this has been so, -1 where it is not."""
        return now - self._since[what] if what in self._since else -1.0

    async def _do(
        self, source: Client, each: Distributor, choice: TargetChoice | None, now: float, after_s: float | None
    ) -> None:
        forced = ("forced", each.name, str(choice.serial if choice else 0))
        self._note(now, forced, holds=choice is not None and choice.is_under_way and choice.is_forced)
        if choice is not None and forced in self._since:
            if self._held_s(now, *forced) >= REVOCATION_S:
                await leave(source, each, choice)
        elif (change := self._due(each, choice, now, after_s)) is not None:
            wanted = change(choice)
            if wanted is None:
                return
            if wanted.is_forced and await read_allowances(source, each.name, wanted.target) is None:
                return
            message = "%s: leaves %s, which is gone, for %s" if wanted.is_forced else "%s: copies to %s, and then to %s"
            _log.warning(message, each.name, wanted.leaf, wanted.wanted)
            await write_choice(source, each.name, change)

    def _due(self, each: Distributor, choice: TargetChoice | None, now: float, after_s: float | None) -> Choose | None:
        """Return the change that is due for a choice, `None` for nothing."""
        if choice is not None and choice.finishes:
            self._since["tried", each.name, choice.finishes] = now
            is_gone = self._held_s(now, "away", choice.finishes) >= GONE_S
            return partial(replace_choice, choice, choice.going_back("")) if is_gone else None
        if choice is not None and choice.is_under_way:
            return None
        for leaf in each.leaves:
            if choice is None or choice.doubt(leaf) is None:
                self._since.pop(("tried", each.name, leaf), None)
        for doubt in () if choice is None else choice.doubts:
            if choice is not None and doubt.leaf in each.leaves and self._is_back(now, each.name, doubt.leaf):
                return partial(replace_choice, choice, choice.going_back(doubt.leaf))
        target = each.target if choice is None else choice.target
        if after_s is None or self._held_s(now, "away", target) < after_s:
            return None
        doubted = [] if choice is None else [doubt.leaf for doubt in choice.doubts]
        for leaf in each.leaves:
            if leaf not in (target, *doubted) and self._held_s(now, "there", leaf) >= 0:
                return partial(_forced_choice, each, leaf, choice)
        return None

    def _is_back(self, now: float, link: str, leaf: str) -> bool:
        """Whether a leaf may be asked to take what it lacks."""
        there_s, tried_s = self._held_s(now, "there", leaf), self._held_s(now, "tried", link, leaf)
        return there_s >= BACK_S and not 0 <= tried_s < min(there_s, AGAIN_S)


def _forced_choice(
    each: Distributor, leaf: str, known: TargetChoice | None, now: TargetChoice | None
) -> TargetChoice | None:
    """Choose another leaf without asking the present one, if the choice is still the one that was known."""
    present = now if now is not None and now.is_of(each.leaves) else None
    is_same = (present and present.serial) == (known and known.serial)
    return wish_for_leaf(each, leaf, now, is_forced=True) if is_same else None
