"""The public face: a configuration opened, and what can be done with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from isthmus import config
from isthmus.control.claims import Claims
from isthmus.control.observation import observe, problem_of
from isthmus.control.plan import LinkPlan, Plan
from isthmus.control.planning import at_start, plan_link
from isthmus.control.recollection import recorded_topics
from isthmus.errors import ClusterError
from isthmus.ledger.link import read_documents
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.wire.client import Client

ResultT = TypeVar("ResultT")


class Fabric:
    """All clusters and links of one configuration.

        with isthmus.open("isthmus.yaml") as fabric:
            print(fabric.plan())
            fabric.run(until="caught-up")

    Each call connects, does its work and closes what it opened.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def plan(self, *, link: str | None = None) -> Plan:
        """What `run` would create and copy, per topic with mode and reasons. Nothing is changed.

        A cluster that does not answer is a problem of its links, not an error.

        :raises ConfigError: There is no link of that name.
        """
        return in_loop(_plan(self.links(link)))

    def links(self, name: str | None = None) -> tuple[Link, ...]:
        """The link of that name, or all of them.

        :raises ConfigError: There is none of that name.
        """
        return self.configuration.links if name is None else (self.configuration.link(name),)


def open_fabric(path: str | Path | None = None) -> Fabric:
    """The fabric a configuration file describes; without a path the file is looked for.

    :raises ConfigError: There is no such file, or it cannot be used.
    """
    return Fabric(config.load(None if path is None else Path(path)))


def in_loop(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, also where an event loop runs already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[ResultT] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that asked
            failures.append(error)

    thread = threading.Thread(target=run, name="isthmus")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


async def _plan(links: tuple[Link, ...]) -> Plan:
    claims = Claims()
    # One after the other: which link a topic belongs to is settled in the order of the file.
    return Plan(links=tuple([await _plan_link(link, claims) for link in links]))


async def _plan_link(link: Link, claims: Claims) -> LinkPlan:
    try:
        async with Client(link.source) as source, Client(link.target) as target:
            observed = await observe(link, source, target)
            recorded = recorded_topics(link.name, await read_documents(target))
            return plan_link(observed, claims, at_start(observed, recorded))
    except ClusterError as error:
        return LinkPlan(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            problem=problem_of(error),
        )
