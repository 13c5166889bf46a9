"""The history of links within the last hour, for charts: bounded, however many looks there were."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey
from isthmus.model.links.progress import LinkProgress, PartitionProgress

STEP_S: Final = 10.0
HOUR_S: Final = 3600.0
_KEPT_MAX: Final = int(HOUR_S / STEP_S)
_LINKS_MAX: Final = 1000
_RATE_S: Final = 6.0
"""Rates are computed over a few looks: one may come just before, the next just after the report of a lease."""


class Sample(NamedTuple):
    """One link at one moment (s since 1970): the records to copy, their age, and the rate per second. An unknown value
    is `None`.
    """

    at_s: float
    lag_records: int | None
    lag_s: float | None
    records_per_s: float | None


@dataclass(slots=True)
class _LinkHistory:
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_KEPT_MAX))
    places: dict[LaneKey, int] = field(default_factory=dict)
    placed_at_s: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)
    rate: float | None = None


class History:
    """The samples of each link; links that are gone leave nothing behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[str, _LinkHistory] = {}

    def take(self, links: tuple[LinkProgress, ...], now_s: float) -> None:
        """Add the present state of the links."""
        with self._lock:
            known = self._links
            self._links = {each.link: known.get(each.link) or _LinkHistory() for each in links[:_LINKS_MAX]}
            for link in links[:_LINKS_MAX]:
                _note(self._links[link.link], link, now_s)

    def of(self, link: str) -> list[Sample]:
        """Return the samples of a link, the oldest first."""
        with self._lock:
            kept = self._links.get(link)
            return [] if kept is None else [*kept.samples]

    def rate(self, link: str) -> float | None:
        """Return how many records a second a link copies, as far as that was seen."""
        with self._lock:
            kept = self._links.get(link)
            return None if kept is None else kept.rate

    def rates(self, link: str) -> dict[str, float]:
        """Return the rates by topic."""
        with self._lock:
            kept = self._links.get(link)
            return {} if kept is None else kept.rates


def _note(kept: _LinkHistory, link: LinkProgress, now_s: float) -> None:
    elapsed_s = now_s - kept.placed_at_s
    if elapsed_s >= _RATE_S or not kept.places:
        places = dict(_places(link))
        if kept.places:
            rates: dict[str, float] = {}
            for key, place in places.items():
                advanced = max(place - kept.places.get(key, place), 0)
                rates[key.topic] = rates.get(key.topic, 0.0) + advanced / elapsed_s
            kept.rates, kept.rate = rates, sum(rates.values())
        kept.places, kept.placed_at_s = places, now_s
    if not kept.samples or now_s - kept.samples[-1].at_s >= STEP_S:
        while kept.samples and now_s - kept.samples[0].at_s > HOUR_S:
            kept.samples.popleft()
        lag = link.lag_records
        kept.samples.append(Sample(now_s, None if lag < 0 else lag, _lag_s(link), kept.rate))


def _lag_s(link: LinkProgress) -> float | None:
    """Return the age of the oldest record to copy, as far as it is known for all topics."""
    lags = [topic.lag_s for topic in link.topics]
    return None if not lags or None in lags else max(lag for lag in lags if lag is not None)


def _places(link: LinkProgress) -> Iterator[tuple[LaneKey, int]]:
    for topic in link.topics:
        for partition in topic.partitions:
            place = _place(partition)
            if place >= 0:
                yield partition.key, place


def _place(partition: PartitionProgress) -> int:
    return partition.target_end if partition.copied_end is None else partition.copied_end
