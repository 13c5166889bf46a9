"""Run links on the Spark of an application, until all is copied or for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome
from isthmus.run.following import Following
from isthmus.spark.application import SparkApplication

if TYPE_CHECKING:
    from isthmus.model.links.outcome import Until
    from isthmus.run.controller import OnProgress
    from isthmus.run.stopping import StopRequest


async def run_links(
    configuration: Configuration,
    application: SparkApplication,
    links: tuple[Link, ...],
    *,
    until: Until | None,
    on_progress: OnProgress | None,
    following: Following,
    takes: Callable[[Link], bool],
    take_over: bool,
    standby: bool,
    stopping: StopRequest | None = None,
) -> RunOutcome:
    """Run these links, and those that come later and that it `takes`; see `AsyncFabric.run`.

    :raises ConfigError: There is no Spark to run on, or it is to take over and to stand by at once.
    """
    application.find()
    from isthmus.run.controller import Controller
    from isthmus.run.state.candidacy import WhenOccupied
    from isthmus.run.workers import Workers

    when_occupied = WhenOccupied.of(take_over=take_over, standby=standby)
    names = [link.name for link in links]
    workers = Workers(configuration.spark, links=names, spark=application.running)
    controller = Controller(
        configuration,
        links,
        workers,
        until=until,
        on_progress=on_progress,
        when_occupied=when_occupied,
        following=following,
        takes=takes,
        stopping=stopping,
    )
    try:
        return await controller.run()
    finally:
        workers.leave()
        application.keep(workers.starting)
