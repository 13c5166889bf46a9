"""The screen of `isthmus status --watch`, driven by keys on 80 x 24."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from isthmus.cli.tables.screen import StatusScreen
from isthmus.cli.tables.view import Sorting, View
from isthmus.config.reading.places import SMALLEST
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState

LINKS, TOPICS = 50, 10
"""So many links, with so many topics each."""
Driven = Callable[[StatusScreen, Pilot[None]], Awaitable[None]]


def topic(name: str, lag: int, state: LaneState = LaneState.ACTIVE, problem: Problem | None = None) -> TopicProgress:
    """A topic of two partitions, of which the second has nothing left to copy."""
    partitions = [
        PartitionProgress(
            topic=TargetTopic(name), partition=number, state=state, target_end=0, source_end=end, problem=problem
        )
        for number, end in enumerate((lag, 0))
    ]
    return topic_of(TargetTopic(name), SourceTopic(name), partitions)


def many(lag: int = 1) -> list[LinkProgress]:
    """500 topics of 50 links; one of the last link lags most, and one has stopped for good."""
    links = []
    for number in range(LINKS):
        topics = [topic(f"orders-{number:02}-{each:02}", lag * each) for each in range(TOPICS)]
        links.append(link(f"link-{number:02}", *topics))
    links[-1] = link(
        "link-49",
        topic("far-behind", 1_234_567),
        topic("broken", 5, LaneState.DATA_GAP, Problem("records are gone", "Begin anew.")),
        *links[-1].topics[2:],
    )
    return links


def link(name: str, *topics: TopicProgress) -> LinkProgress:
    """A link that is run."""
    return LinkProgress(link=name, source="east", target="west", state=LinkState.ACTIVE, topics=topics)


class Looks:
    """Reads what it is told to, and may fail."""

    def __init__(self, links: Sequence[LinkProgress]) -> None:
        self.links = links
        self.error: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> Sequence[LinkProgress]:
        """The links as they stand."""
        if self.error is not None:
            raise self.error
        return self.links


def drive(reader: Looks, driven: Driven, view: View | None = None, interval_s: float = 60.0) -> StatusScreen:
    """Show the screen on 80 x 24 and do something with it, once it has looked."""
    screen = StatusScreen(reader, view or View(), interval_s)

    async def run() -> None:
        async with screen.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: screen.looks > 0)
            await driven(screen, pilot)

    asyncio.run(run())
    return screen


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not condition():
            await pilot.pause(0.01)
        await pilot.pause()


def table(screen: StatusScreen) -> DataTable[Text]:
    """The rows."""
    return screen.query_one(DataTable)


def column(screen: StatusScreen, name: str) -> list[str]:
    """What is in a column, from top to bottom."""
    for key, each in table(screen).columns.items():
        if " ".join(each.label.plain.split()) == name:
            return [cell.plain for cell in table(screen).get_column(key)]
    raise AssertionError(name)


def said(screen: StatusScreen, name: str) -> str:
    """What one of the lines around the table says."""
    return str(screen.query_one(f"#{name}", Static).visual)


def lines(screen: StatusScreen) -> list[str]:
    """The screen as it is drawn."""
    strips = screen.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def test_500_topics_of_50_links_on_a_small_screen() -> None:
    """Totals are of all, every row can be reached, and values are whole."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        shown = lines(screen)
        assert (len(shown), {len(line) for line in shown}) == (24, {80})
        assert shown[0].startswith("50 links: 50 ACTIVE")
        assert shown[1].startswith("500 topics: 499 ACTIVE, 1 DATA_GAP")
        assert shown[2].startswith("lag 1,236,821 records, 1 topic has a problem")
        assert shown[23].rstrip().endswith("+ - pace")
        assert "orders-00-00" in "\n".join(shown)
        assert table(screen).row_count == 500
        await pilot.press("end")
        await until(pilot, lambda: "orders-49-09" in "\n".join(lines(screen)))
        assert shown[0] == lines(screen)[0]

    drive(Looks(many()), driven)


def test_keys_move_the_cursor() -> None:
    """j and k as the arrows; the problem of the row is told below the table."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j", "k")
        assert table(screen).cursor_row == 1
        await pilot.press("home", "k")
        assert table(screen).cursor_row == 0
        await pilot.press("x")
        assert column(screen, "topic") == ["broken"]
        assert said(screen, "problem") == "records are gone. Begin anew."
        assert "with problems only" in said(screen, "view")

    drive(Looks(many()), driven)


def test_sorted_by_lag() -> None:
    """The longest lag comes first; whoever is at the top stays there while others overtake."""
    reader = Looks([link("l", topic("a", 10), topic("b", 20))])

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        assert column(screen, "topic") == ["a", "b"]
        await pilot.press("s")
        assert column(screen, "lag records") == ["20", "10"]
        reader.links = [link("l", topic("a", 1_000), topic("b", 20))]
        await pilot.press("r")
        await until(pilot, lambda: screen.looks > 1)
        assert column(screen, "topic") == ["a", "b"]
        assert (table(screen).cursor_row, said(screen, "view")) == (0, "2 rows, by lag; every 60 s")
        await pilot.press("s", "s")
        assert "by name" in said(screen, "view")

    drive(reader, driven)


def test_the_cursor_follows_the_row_it_is_at() -> None:
    """While others overtake it, and while topics come and go."""
    reader = Looks([link("l", topic("a", 30), topic("b", 20), topic("c", 10))])

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.press("j")
        reader.links = [link("l", topic("a", 30), topic("c", 50), topic("d", 40), topic("b", 20))]
        await pilot.press("r")
        await until(pilot, lambda: screen.looks > 1)
        assert column(screen, "topic") == ["c", "d", "a", "b"]
        assert table(screen).cursor_row == 3
        reader.links = [link("l", topic("c", 50))]
        await pilot.press("r")
        await until(pilot, lambda: screen.looks > 2)
        assert column(screen, "topic") == ["c"]

    drive(reader, driven, View(sorting=Sorting.LAG))


def test_partitions_of_one_topic() -> None:
    """p goes into the topic under the cursor and back; totals stay those of all."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        before = said(screen, "totals")
        await pilot.press("j", "p")
        assert column(screen, "partition") == ["0", "1"]
        assert set(column(screen, "topic")) == {"orders-00-01"}
        assert said(screen, "totals") == before
        await pilot.press("p")
        assert table(screen).row_count == 500
        await pilot.press("p", "escape")
        assert table(screen).row_count == 500

    drive(Looks(many()), driven)


def test_filter() -> None:
    """What is typed narrows down at once, by links and topics; Enter keeps it and Escape takes it back."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"49/ORD")
        assert set(column(screen, "link")) == {"link-49"}
        assert table(screen).row_count == 8
        await pilot.press("enter", "j")
        assert (table(screen).cursor_row, table(screen).row_count) == (1, 8)
        assert said(screen, "totals").startswith("50 links")
        await pilot.press("slash", "escape")
        assert table(screen).row_count == 500
        assert not screen.query_one(Input).display

    drive(Looks(many()), driven)


def test_pace() -> None:
    """+ looks less often and - more often, within bounds; either looks at once."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.press("minus")
        assert (screen.interval_s, "every 1 s" in said(screen, "view")) == (1.0, True)
        await pilot.press(*["plus"] * 9)
        assert screen.interval_s == 60.0
        await pilot.press(*["minus"] * 9)
        assert screen.interval_s == 0.5
        await until(pilot, lambda: screen.looks > 2)

    drive(Looks(many()), driven, interval_s=2.0)


def test_a_narrow_screen_has_fewer_columns() -> None:
    """Columns give way; state and lag stay whole."""

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: all(len(line) == 60 for line in lines(screen)))
        await pilot.press("s")
        assert any("1,234,567" in line and "ACTIVE" in line for line in lines(screen))

    drive(Looks(many()), driven)


@pytest.mark.parametrize(("key", "ending"), [("q", type(None)), ("ctrl+c", KeyboardInterrupt)])
def test_leaving(key: str, ending: type[object]) -> None:
    """q is an end like any other, Ctrl-C an interruption as in all commands."""

    async def driven(_: StatusScreen, pilot: Pilot[None]) -> None:
        await pilot.press(key)

    assert isinstance(drive(Looks(many()), driven).ending, ending)


def test_an_error_ends_the_screen() -> None:
    """It is told where the terminal is as it was before."""
    reader = Looks(many())

    async def driven(screen: StatusScreen, pilot: Pilot[None]) -> None:
        reader.error = RuntimeError("a bug")
        await pilot.press("r")
        await until(pilot, lambda: screen.ending is not None)

    assert str(drive(reader, driven).ending) == "a bug"


@pytest.mark.parametrize(("key", "code"), [(b"q", 0), (b"\x03", 130)])
def test_on_a_real_terminal(tmp_path: Path, key: bytes, code: int) -> None:
    """The command shows the screen, and ends at a key with the terminal as it was."""
    (tmp_path / "isthmus.yaml").write_text(SMALLEST.replace(":9192", ":1").replace(":9292", ":1"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from isthmus.cli.app import main; main()", "status", "--watch"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    seen, has_pressed = b"", False
    with open(ours, "rb", buffering=0) as screen, process, contextlib.suppress(OSError):
        while part := screen.read(65536):
            seen += part
            if not has_pressed and b"UNAVAILABLE" in seen:
                has_pressed = True
                os.write(ours, key)
    assert process.returncode == code, seen[-2000:]
    assert seen.rindex(b"\x1b[?1049l") > seen.rindex(b"\x1b[?1049h")
