"""How a run of links ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from isthmus.config import load
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.process.timings import Timings
from isthmus.run.controller import Controller, kept_up
from isthmus.run.following import Following
from isthmus.run.pace import LONGEST_S
from isthmus.run.workers import Workers


class _NoWorkers(Workers):
    """Without Spark."""

    def start(self) -> None:
        pass

    async def recount(self) -> None:
        pass


class _Slow(Controller):
    """What goes on beside the links takes for ever to end, unless it is told so again."""

    is_at_work = False

    def __init__(self) -> None:
        workers = _NoWorkers(SparkSettings(), links=())
        super().__init__(Configuration(clusters=(), links=()), (), workers, until=lambda _: self.is_at_work)
        self.is_ending = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def _recover(self) -> None:
        self.is_at_work = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ending.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.has_ended.set()


def test_a_second_signal_ends_what_goes_on_beside_links() -> None:
    """The outcome tells of the signal, and nothing is left at work."""

    async def scenario() -> tuple[RunOutcome, bool]:
        controller = _Slow()
        running = asyncio.create_task(controller.run())
        await controller.is_ending.wait()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        outcome = await running
        return outcome, controller.has_ended.is_set()

    outcome, has_ended = asyncio.run(scenario())
    assert (outcome.signal, has_ended) == (signal.SIGINT, True)


def test_what_goes_on_beside_the_links_survives_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    """It is told and begun again: it would be missed for as long as the run goes on."""
    begun: list[int] = []

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) == 1:
            raise KeyError("orders")

    asyncio.run(kept_up(work))
    assert begun == [0, 1]
    assert "this is a bug in Isthmus" in caplog.text


def test_progress_that_takes_long_is_told_less_often() -> None:
    """Whether to end is asked all the same."""
    told, asked = [], []

    def tell(_: object) -> None:
        told.append(time.monotonic())
        begun_s = time.thread_time()
        while time.thread_time() - begun_s < 0.2:
            pass

    def has_ended(_: object) -> bool:
        asked.append(time.monotonic())
        return len(asked) == 2

    configuration = Configuration(clusters=(), links=())
    workers = _NoWorkers(SparkSettings(), links=())
    asyncio.run(Controller(configuration, (), workers, until=has_ended, on_progress=tell).run())

    assert len(asked) == 2
    assert len(told) == 1 or asked[1] - told[0] >= LONGEST_S


FILE = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
links:
  - {name: l, source: east, target: west, topics: {include: [orders]}, transform: {python: "rules:clean"}}
"""


def test_modules_that_are_being_written_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on by those that it had, says why, and takes the new ones when they are there."""
    file, words = tmp_path / "isthmus.yaml", tmp_path / "words.py"
    file.write_text(FILE)
    (tmp_path / "rules.py").write_text("import words\n\n\ndef clean(rows):\n    return rows\n")
    words.write_text("A = 1\n")
    reread, taken = partial(load, file, {}), list[Configuration]()
    former = replace(reread(), timings=Timings(follow_s=0.05))
    steps: list[tuple[str, Callable[[], object]]] = [
        ("", lambda: words.write_text("A = (\n")),
        ("words.py cannot be parsed", words.unlink),
        ("module words of transform rules:clean is not found", lambda: words.write_text("A = 2\n")),
    ]

    def is_done(_: object) -> bool:
        if steps and steps[0][0] in caplog.text:
            steps.pop(0)[1]()
        return any(each.links != former.links for each in taken)

    following = Following(reread, is_constant=True, on_configuration=taken.append)
    workers = _NoWorkers(SparkSettings(), links=())
    controller = Controller(former, (), workers, until=is_done, following=following, takes=lambda _: False)
    asyncio.run(controller.run())

    assert not steps
    assert taken[-1].links == reread().links != former.links
