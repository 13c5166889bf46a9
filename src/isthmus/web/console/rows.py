"""The table of a link's topics: sorted, filtered and divided into pages on the server. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isthmus.model.links.progress import LinkProgress, TopicProgress, attention

PAGE_ROWS: Final = 50
_NEEDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic as it is shown; what is unknown is `None`."""

    topic: TopicProgress
    lag_records: int | None
    lag_s: float | None
    records_per_s: float | None
    attention: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """The choice of a user: the column to sort by, a part of the name, a state (or PROBLEMS), the page from 1."""

    sort: str = "lag"
    search: str = ""
    state: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """The rows of one page, the total, and the choice in force."""

    rows: Sequence[TopicRow]
    found: int
    total: int
    states: Mapping[str, int]
    choice: TopicChoice

    @property
    def pages(self) -> int:
        """The number of pages."""
        return max(1, math.ceil(self.found / PAGE_ROWS))

    @property
    def first(self) -> int:
        """The number of the first row, from 1."""
        return (self.choice.page - 1) * PAGE_ROWS + 1


SORTS: Final[dict[str, Callable[[TopicRow], Any]]] = {
    # An unknown lag needs attention before any known one.
    "lag": lambda row: (-math.inf if row.lag_records is None else -row.lag_records, row.topic.topic),
    "age": lambda row: (-math.inf if row.lag_s is None else -row.lag_s, row.topic.topic),
    "rate": lambda row: (-(row.records_per_s or 0.0), row.topic.topic),
    "state": lambda row: (-row.attention, row.topic.state, row.topic.topic),
    "topic": lambda row: row.topic.topic,
}
PROBLEMS: Final = "PROBLEMS"


def topic_rows(link: LinkProgress, rates: Mapping[str, float]) -> tuple[TopicRow, ...]:
    """Return all topics of a link."""
    return tuple(_row(topic, rates.get(topic.topic)) for topic in link.topics)


def _row(topic: TopicProgress, rate: float | None) -> TopicRow:
    lag = topic.lag_records
    return TopicRow(
        topic=topic,
        lag_records=None if lag < 0 else lag,
        lag_s=topic.lag_s,
        records_per_s=rate,
        attention=max(attention(topic.state), _NEEDS if topic.problem is not None else 0),
    )


def page_of(rows: Sequence[TopicRow], choice: TopicChoice) -> TopicPage:
    """Return the rows to show. A page that does not exist becomes the last one, a column that does
    not exist the lag.
    """
    states: dict[str, int] = {}
    for row in rows:
        states[str(row.topic.state)] = states.get(str(row.topic.state), 0) + 1
    found = [row for row in rows if _is_meant(row, choice)]
    sort = choice.sort if choice.sort in SORTS else "lag"
    found.sort(key=SORTS[sort])
    page = min(max(choice.page, 1), max(1, math.ceil(len(found) / PAGE_ROWS)))
    return TopicPage(
        rows=found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
        found=len(found),
        total=len(rows),
        states=dict(sorted(states.items())),
        choice=TopicChoice(sort=sort, search=choice.search, state=choice.state, page=page),
    )


def _is_meant(row: TopicRow, choice: TopicChoice) -> bool:
    if choice.search and choice.search.lower() not in f"{row.topic.topic} {row.topic.source_topic}".lower():
        return False
    if choice.state == PROBLEMS:
        return row.attention >= _NEEDS
    return not choice.state or row.topic.state == choice.state
