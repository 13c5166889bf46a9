"""The progress of a run: a live table on a terminal, plain lines otherwise. All on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, Self

from rich.live import Live
from rich.text import Text

from isthmus.cli.output import Row, console, printable
from isthmus.cli.steps import tell_step
from isthmus.cli.tables.columns import Cells, Column
from isthmus.cli.tables.grid import Grid
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.problem import Problem
from isthmus.model.state import AGED_S, RUNNING, LinkState
from isthmus.model.text.elapsed import ago
from isthmus.model.text.wording import format_count

LINE_S: Final = 5.0
"""The interval of lines for each link without a terminal, as long as the link changes."""
_WINDOW_S: Final = 3.0
_BAR_WIDTH: Final = 12
_LINES_AROUND: Final = 5
"""Headings, the rule below them, the line of omissions, and the line of the cursor."""
_LAG_NOTED: Final = 1000
_LINES_PER_LINK: Final = 2
"""Its own, and the one that counts the topics without room."""
_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("state"),
    Column("copied"),
    Column("lag", Cells.NUMBER),
    Column("records/s", Cells.NUMBER),
)
_NOTHING: Final = {name: Text("") for name in ("state", "copied", "lag", "records/s")}
_MIB: Final = 1 << 20


class Rates:
    """Speeds over the last seconds, from occasional counts."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def rate(self, name: str, count: int, now: float) -> float:
        """Return how fast `count` has grown lately, per second."""
        seen = self._seen.setdefault(name, [])
        seen.append((now, count))
        while len(seen) > 2 and seen[1][0] < now - _WINDOW_S:
            seen.pop(0)
        elapsed_s = now - seen[0][0]
        return max(count - seen[0][1], 0) / elapsed_s if elapsed_s > 0 else 0.0


class LiveProgress:
    """Show progress while it is entered; call `show` with every new one."""

    def __init__(self, *, line_s: float = LINE_S) -> None:
        self._line_s = line_s
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._rates = Rates()
        self._told: dict[str, str] = {}
        self._awaited: set[str] = set()
        self._stood: dict[str, tuple[object, ...]] = {}
        self._line_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, links: Sequence[LinkProgress]) -> None:
        """Show the present state of the links."""
        now = time.monotonic()
        for line in self._news(links):
            tell_step(line)
        # While Spark starts its JVM writes to the terminal as well, which would damage a table.
        if self._live is not None and (self._live.is_started or _is_running(links)):
            self._live.start()
            self._live.update(progress_grid(links, self._rates, now, height=console.height), refresh=True)
        elif now - self._line_at >= self._line_s:
            self._line_at = now
            for line in self._lines(links, now):
                tell_step(line)

    def _news(self, links: Sequence[LinkProgress]) -> Iterator[str]:
        """Yield changes for the worse or the better, each once."""
        for link in links:
            yield from self._change(link.link, str(link.state), link.problem)
            for topic in link.topics:
                # Leases hand their lanes over all the time: a lane that starts again is no news.
                if topic.state is not LaneState.STARTING or topic.problem is not None:
                    where, is_calm = f"{link.link}/{topic.topic}", topic.state.is_calm
                    yield from self._change(where, str(topic.state), topic.problem, is_calm=is_calm)

    def _change(self, where: str, state: str, problem: Problem | None, *, is_calm: bool = False) -> Iterator[str]:
        """Yield a line for a new state; for a calm one only after another state was shown."""
        line = f"{where}: {state}" + (f": {problem.message}" if problem else "")
        known = self._told.get(where)
        if known is None and is_calm:
            return
        if line != known:
            yield line
        self._told[where] = line

    def _lines(self, links: Sequence[LinkProgress], now: float) -> Iterator[str]:
        """Yield the progress of each link that has changed since its last line; for one that is starting only if this
        takes a while.
        """
        for link in links:
            stands = (link.state, link.records, link.lag_records, link.trouble)
            # Sampled each time, or the speed would be an average of hours.
            rate = self._rates.rate(link.link, link.records, now)
            if stands == self._stood.get(link.link):
                continue
            self._stood[link.link] = stands
            copied = f"{format_count(link.records, 'record')} copied"
            if link.state in RUNNING:
                trouble = f", {link.trouble_in_words}" if link.trouble else ""
                yield f"{link.link}: {copied}, {rate:,.0f} records/s, lag {_lag(link)}{trouble}"
            elif link.state is not LinkState.STARTING:
                yield f"{link.link}: {link.state}, {copied}, lag {_lag(link)}"
            elif link.link not in self._awaited:
                self._awaited.add(link.link)
                reason = "Spark takes some seconds" if link.problem is None else "still waiting"
                yield f"{link.link}: starting; {reason}"


def progress_grid(links: Sequence[LinkProgress], rates: Rates, now: float, *, height: int) -> Grid:
    """Return all links, each with as many topics as a screen of this height has lines for: the urgent ones first."""
    topics_max = max((height - _LINES_AROUND) // max(len(links), 1) - _LINES_PER_LINK, 1)
    rows: list[Row] = []
    for link in links:
        rows.append(_link_row(link, rates, now))
        # The speeds of all topics, so that a topic that comes into view has the speed of the last seconds.
        speeds = {topic.topic: _speed(link.link, topic, rates, now) for topic in link.topics}
        ordered = sorted(link.topics, key=_urgency)
        rows.extend(_topic_row(topic, speeds[topic.topic]) for topic in ordered[:topics_max])
        if len(ordered) > topics_max:
            rows.append({"topic": Text(f"  and {len(ordered) - topics_max:,} more"), **_NOTHING})
    return Grid(rows, _COLUMNS, is_live=True)


def _is_running(links: Sequence[LinkProgress]) -> bool:
    return any(link.state is not LinkState.STARTING for link in links)


def _urgency(topic: TopicProgress) -> tuple[bool, int, str]:
    """Return the sort key: trouble first, then long lags; only by their order of magnitude, so that rows keep their
    places.
    """
    magnitude = len(str(topic.lag_records)) if topic.lag_records >= _LAG_NOTED else 0
    return topic.state.is_calm, -magnitude, topic.topic


def _link_row(link: LinkProgress, rates: Rates, now: float) -> Row:
    speed = rates.rate(f"{link.link} bytes", link.size_bytes, now) / _MIB
    style = "bold" if link.state in (LinkState.ACTIVE, LinkState.STARTING) else "bold red"
    row: dict[str, object] = {
        "topic": Text(printable(f"{link.link} ({link.source} to {link.target})"), style=style),
        "state": str(link.state),
        "copied": f"{speed:,.1f} MiB/s",
        "records/s": round(rates.rate(link.link, link.records, now)),
    }
    return {**row, "lag": _lag(link)} if link.topics else row


def _speed(link: str, topic: TopicProgress, rates: Rates, now: float) -> int | None:
    """Return the speed, `None` until all ends are known: finding them would look like copying."""
    if topic.lag_records < 0:
        return None
    return round(rates.rate(f"{link}/{topic.topic}", sum(p.target_end for p in topic.partitions), now))


def _topic_row(topic: TopicProgress, speed: int | None) -> Row:
    row: dict[str, object] = {
        "topic": Text(f"  {printable(topic.topic)}"),
        "state": Text(str(topic.state), style="" if topic.state.is_calm else "red"),
        "lag": topic.lag_records if topic.lag_records >= 0 else None,
    }
    if speed is None:
        return row
    ends = [(p.target_end, p.source_end) for p in topic.partitions]
    return {**row, "copied": bar(sum(end for end, _ in ends), sum(end for _, end in ends)), "records/s": speed}


def bar(done: int, total: int) -> Text:
    """Return a bar of the part that is done; an empty whole is done."""
    share = min(done / total, 1.0) if total > 0 else 1.0
    filled = int(share * _BAR_WIDTH)
    return Text.assemble(("━" * filled, "bar.complete"), ("─" * (_BAR_WIDTH - filled), "bar.back"))


def _lag(link: LinkProgress) -> str:
    """Format the lag of a link; if that of a topic is unknown, the least it can be."""
    lag = f"{link.lag_records:,}" if link.lag_records >= 0 else f"at least {link.lag_records_min:,}"
    return f"{lag} ({ago(link.age_s)})" if link.age_s > AGED_S else lag
