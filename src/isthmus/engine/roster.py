"""The lanes of an engine by key: one run at a time, after former ones with requests that may be on their way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.model.lane import LaneKey, LaneMark, LaneReport


class Roster:
    """The present runs, which it iterates over, and those before them that the present ones have not inherited from."""

    def __init__(self) -> None:
        self._present: dict[LaneKey, LaneRun] = {}
        self._former: dict[LaneKey, list[LaneRun]] = {}

    def __iter__(self) -> Iterator[LaneRun]:
        return iter(self._present.values())

    def __getitem__(self, key: LaneKey) -> LaneRun:
        return self._present[key]

    def get(self, key: LaneKey) -> LaneRun | None:
        """Return the present run of a key, if there is one."""
        return self._present.get(key)

    def enter(self, run: LaneRun) -> None:
        """Make this the present run of its key; the one before is a former one from now on."""
        before = self._present.get(run.lane.key)
        if before is not None:
            self._former.setdefault(run.lane.key, []).append(before)
        self._present[run.lane.key] = run

    def leave_former(self, run: LaneRun) -> list[LaneRun]:
        """Return the former runs of the run's key, and forget them."""
        return self._former.pop(run.lane.key, [])

    def is_alone(self, run: LaneRun) -> bool:
        """Whether no former run of the lane's key is still writing."""
        return not any(each.is_writing for each in self._former.get(run.lane.key, ()))

    def list_all(self) -> list[LaneRun]:
        """Return the present and the former runs."""
        return [*self._present.values(), *chain.from_iterable(self._former.values())]

    @property
    def is_clean(self) -> bool:
        """Whether no request of ours may still be on its way, so that the next owner need not settle."""
        return not any(run.is_writing or run.writer.abandoned for run in self.list_all())

    def reports(self) -> list[LaneReport]:
        """Report the state of every lane."""
        return [run.report() for run in self]

    def marks(self) -> list[LaneMark]:
        """The marks of the lanes for their next owner, for those whose position is certain."""
        return [mark for run in self if (mark := run.mark) is not None]

    def transits(self) -> dict[LaneKey, Transit]:
        """The transits of the mapped lanes that have begun: where their records went."""
        transits: dict[LaneKey, Transit] = {}
        for key, run in self._present.items():
            if run.transit is not None and not run.transit.is_outdated:
                if run.phase.is_placed:
                    run.transit.passed(run.intake.read_epoch)
                transits[key] = run.transit
        return transits

    def find_final(self, keys: Iterable[LaneKey]) -> frozenset[LaneKey]:
        """The mapped lanes among these of which certainly no record lies behind their transits: they are over, and
        nothing else of them was sent.
        """
        found = ((key, run) for key in keys if (run := self.get(key)) is not None and run.transit is not None)
        return frozenset(
            key
            for key, run in found
            if run.is_over
            and run.transit is not None
            and run.transit.is_final
            and not (run.is_writing or run.writer.is_untold)
        )
