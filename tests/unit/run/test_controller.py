"""How a run of links ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.links.outcome import RunOutcome
from isthmus.run.controller import Controller, kept_up
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
