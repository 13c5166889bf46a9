"""The progress of a run while it lasts: a table that moves on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Self

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isthmus.cli.output import console, printable
from isthmus.control.progress import LinkProgress, TopicProgress
from isthmus.model.elapsed import ago
from isthmus.model.lane import LaneState, Problem
from isthmus.model.state import AGED_S, LinkState
from isthmus.model.wording import counted

LINE_S: Final = 5.0
"""How often a line is written for each link where there is no terminal."""
_WINDOW_S: Final = 3.0
_BAR_WIDTH: Final = 24
_TOPICS_SHOWN: Final = 30
_CALM: Final = (LaneState.STARTING, LaneState.ACTIVE, LaneState.PAUSED, LaneState.STOPPED)
_MIB: Final = 1 << 20


class Rates:
    """Speeds over the last seconds, from counts seen now and then."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def rate(self, name: str, count: int, now: float) -> float:
        """How fast `count` has grown lately, per second."""
        seen = self._seen.setdefault(name, [])
        seen.append((now, count))
        while len(seen) > 2 and seen[1][0] < now - _WINDOW_S:
            seen.pop(0)
        elapsed_s = now - seen[0][0]
        return max(count - seen[0][1], 0) / elapsed_s if elapsed_s > 0 else 0.0


class LiveProgress:
    """Shows progress while it is entered; call `show` with every new one."""

    def __init__(self) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._rates = Rates()
        self._told: dict[str, str] = {}
        self._line_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, links: Sequence[LinkProgress]) -> None:
        """Show how the links stand now."""
        now = time.monotonic()
        for line in self._news(links):
            console.print(Text(printable(line)))
        if self._live is not None:
            self._live.update(self._table(links, now), refresh=True)
        elif now - self._line_at >= LINE_S:
            self._line_at = now
            for link in links:
                console.print(Text(printable(self._line(link, now))))

    def _news(self, links: Sequence[LinkProgress]) -> Iterator[str]:
        """What changed for the worse or the better, told once."""
        for link in links:
            yield from self._change(link.link, str(link.state), link.problem)
            for topic in link.topics:
                state = str(topic.state) if topic.state not in _CALM else ""
                yield from self._change(f"{link.link}/{topic.topic}", state, topic.problem)

    def _change(self, where: str, state: str, problem: Problem | None) -> Iterator[str]:
        line = f"{where}: {state or LaneState.ACTIVE}" + (f": {problem.message}" if problem else "")
        known = self._told.get(where)
        if line != known and (known is not None or state):
            yield line
        if known is not None or state:
            self._told[where] = line

    def _line(self, link: LinkProgress, now: float) -> str:
        if link.state is LinkState.STARTING:
            return f"{link.link}: starting; {'Spark takes some seconds' if link.problem is None else 'still waiting'}"
        if link.state is not LinkState.ACTIVE:
            return f"{link.link}: {link.state}, {counted(link.records, 'record')} copied, lag {_lag(link)}"
        rate = self._rates.rate(link.link, link.records, now)
        return f"{link.link}: {counted(link.records, 'record')} copied, {rate:,.0f} records/s, lag {_lag(link)}"

    def _table(self, links: Sequence[LinkProgress], now: float) -> Table:
        table = Table(box=None, pad_edge=False, expand=False)
        for name in ("topic", "state", "copied", "lag", "records/s"):
            table.add_column(name, justify="right" if name in ("lag", "records/s") else "left", no_wrap=True)
        for link in links:
            rate = self._rates.rate(link.link, link.records, now)
            speed = self._rates.rate(f"{link.link} bytes", link.size_bytes, now) / _MIB
            style = "bold" if link.state in (LinkState.ACTIVE, LinkState.STARTING) else "bold red"
            title = Text(f"{link.link} ({link.source} to {link.target})", style=style)
            copied = Text(f"{speed:,.1f} MiB/s")
            table.add_row(title, str(link.state), copied, _lag(link), f"{rate:,.0f}")
            shown = sorted(link.topics, key=lambda t: (t.state in _CALM, -t.lag_records, t.topic))[:_TOPICS_SHOWN]
            for topic in shown:
                self._add(table, link.link, topic, now)
            if len(link.topics) > len(shown):
                table.add_row(Text(f"  and {counted(len(link.topics) - len(shown), 'more topic')}"))
        return table

    def _add(self, table: Table, link: str, topic: TopicProgress, now: float) -> None:
        source_end = sum(max(p.source_end, 0) for p in topic.partitions)
        target_end = sum(max(p.target_end, 0) for p in topic.partitions)
        rate = self._rates.rate(f"{link}/{topic.topic}", target_end, now)
        bar = ProgressBar(total=max(source_end, 1), completed=target_end if source_end else 1, width=_BAR_WIDTH)
        lag = f"{topic.lag_records:,}" if topic.lag_records >= 0 else "unknown"
        style = "" if topic.state in _CALM else "red"
        table.add_row(
            Text(f"  {printable(topic.topic)}"), Text(str(topic.state), style=style), bar, lag, f"{rate:,.0f}"
        )


def _lag(link: LinkProgress) -> str:
    """The lag of a link; where that of a topic is unknown, the least it can be."""
    lag = f"{link.lag_records:,}" if link.lag_records >= 0 else f"at least {link.lag_records_min:,}"
    return f"{lag} ({ago(link.age_s)})" if link.age_s > AGED_S else lag
