"""What was to be seen of both clusters when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from soak.history import Event
from soak.judge.evidence import Lane, PartitionKey

_LOAD_S: Final = 60.0
_OLD_NEWS_S: Final = 2.0
"""So long a leader that stood still may answer with the ends it knew, until it hears what came after."""


class Look(NamedTuple):
    """The ends of a partition, asked for at `begun` and known at `ended` (s): log start, high watermark, stable end."""

    begun: float
    ended: float
    start: int
    high: int
    stable: int


class Timeline:
    """The looks of a run at both sides. Where offsets differ the target's ends are told as the source's.

    A look that met a leader which had just been resumed is none: somebody else has led its partitions meanwhile.
    """

    def __init__(self, events: Sequence[Event], lanes: Iterable[Lane] = ()) -> None:
        resumptions = _resumptions(events)
        pairings = {(lane.topic, lane.partition): lane for lane in lanes if lane.pairing is not None}
        self._looks: dict[str, dict[PartitionKey, list[Look]]] = {
            "source": defaultdict(list),
            "target": defaultdict(list),
        }
        newest: dict[tuple[str, str], tuple[int, int, int]] = {}
        for event in events:
            if event["kind"] != "ends":
                continue
            side, unseen = event["side"], set(event["unseen"])
            for name, (start, stable, high) in event["changed"].items():
                newest[side, name] = (start, high, stable)
            if any(event["at"] >= begin and event["begun"] < end for begin, end in resumptions[side]):
                continue
            for (each, name), (start, high, stable) in newest.items():
                if each == side and name not in unseen:
                    topic, _, partition = name.rpartition(":")
                    key = (topic, int(partition))
                    if side == "target" and key in pairings:
                        high, stable = (pairings[key].source_end(end) for end in (high, stable))
                    self._looks[side][key].append(Look(event["begun"], event["at"], start, high, stable))

    def keys(self, side: str) -> set[PartitionKey]:
        return set(self._looks[side])

    def looks(self, side: str, key: PartitionKey) -> list[Look]:
        """All looks at a partition, in order."""
        return self._looks[side].get(key, [])

    def before(self, side: str, key: PartitionKey, at: float) -> Look | None:
        """The last look that had ended by then."""
        looks = self.looks(side, key)
        index = bisect_right(looks, at, key=lambda look: look.ended)
        return looks[index - 1] if index else None

    def after(self, side: str, key: PartitionKey, at: float) -> Look | None:
        """The first look that began no sooner."""
        looks = self.looks(side, key)
        index = bisect_left(looks, at, key=lambda look: look.begun)
        return looks[index] if index < len(looks) else None

    def within(self, side: str, key: PartitionKey, begin: float, end: float) -> list[Look]:
        """The looks between two moments."""
        return [look for look in self.looks(side, key) if begin <= look.begun and look.ended <= end]


def _resumptions(events: Iterable[Event]) -> dict[str, list[tuple[float, float]]]:
    """From when until when leaders of each side that had stood still may have answered with old ends (s)."""
    found: dict[str, list[tuple[float, float]]] = {"source": [], "target": []}
    for event in events:
        side, _, what = event.get("fault", "").partition("-")
        if what.startswith("leader-frozen") and event["phase"] == "undo":
            found[side].append((event["at"], event["at"] + _OLD_NEWS_S))
    return found


class Machine:
    """How busy the machine was, by what its events tell of load and processors."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._loads: list[tuple[float, float]] = [
            (event["at"], event["load"] / max(event["processors"], 1)) for event in events if "load" in event
        ]

    def stretch(self, begin: float, end: float) -> float:
        """How many times longer than on an idle machine everything may take between two moments.

        A load is an average over the minute before: that of the minute afterwards tells too.
        """
        return max([1.0, *(load for at, load in self._loads if begin <= at <= end + _LOAD_S)])


_TERMINAL_BY: Final = {
    "source truncated": {"DIVERGED"},
    "source lost records": {"DATA_GAP"},
    "source recreated": {"TOPIC_RECREATED"},
    "target recreated": {"TOPIC_RECREATED"},
    "target trimmed": {"FOREIGN_WRITE", "DIVERGED", "TOPIC_RECREATED"},
    "source epoch lost": set(),
    "target truncated": set(),
    "foreign write": {"FOREIGN_WRITE", "DIVERGED", "FAILED"},
    "circle": {"FOREIGN_WRITE", "REFUSED", "FAILED"},
}
TERMINAL: Final = frozenset({"REFUSED", "DATA_GAP", "DIVERGED", "TOPIC_RECREATED", "FOREIGN_WRITE", "FAILED"})
"""States of lanes that last until an operator acts."""


class Sufferings:
    """What was done to topics themselves, and when."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._what: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for event in events:
            if event["kind"] == "suffered":
                self._what[event["topic"]].append((event["at"], event["what"]))

    def of(self, topic: str) -> frozenset[str]:
        return frozenset(what for _, what in self._what.get(topic, ()))

    def since(self, topic: str, what: str) -> float:
        """When that was last done to the topic; infinity for never."""
        return max((at for at, done in self._what.get(topic, ()) if done == what), default=float("inf"))

    def may_end(self, topic: str, state: str, at: float = float("inf")) -> bool:
        """Whether a lane of this topic may have ended in such a state by then."""
        return any(state in _TERMINAL_BY.get(what, ()) for when, what in self._what.get(topic, ()) if when <= at)

    def may_stop(self, topic: str) -> bool:
        """Whether lanes of this topic may have stopped for good."""
        return any(_TERMINAL_BY.get(what) for _, what in self._what.get(topic, ()))
