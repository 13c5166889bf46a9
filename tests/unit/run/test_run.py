"""A link that is run: what ends it, and what is tried again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from isthmus import config
from isthmus.errors import PlanRefused
from isthmus.memory.claims import Claims
from isthmus.model.link import Link
from isthmus.model.process.timings import Timings
from isthmus.model.trees.switching import GoingOver
from isthmus.run.following import change_of
from isthmus.run.run import LinkRun
from isthmus.run.workers import Workers

CONFIGURATION = config.parse(
    "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'}}\n"
    "trees: [{name: t, clusters: [a, [b, c]], topics: [x]}]\n"
)


def test_an_error_of_settings_that_have_changed_meanwhile_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distributor that begins as it was, while it has been asked to go over, is refused by its source, and begins
    again as it is to be. The same error of settings that still hold ends it.
    """
    link = CONFIGURATION.link("t.a.2")
    assert link.distributor is not None
    asked = replace(link, distributor=replace(link.distributor, going=GoingOver(to="c", serial=1)))
    run = LinkRun(link, replace(CONFIGURATION, timings=Timings(retry_s=0.0)), Claims(), [])
    begun: list[Link] = []

    async def begin(_: Workers) -> None:
        begun.append(run.link)
        if len(begun) == 1:
            run.follow(change_of(run.link, asked))
        raise PlanRefused("it goes over")

    monkeypatch.setattr(run, "_run_once", begin)
    asyncio.run(run.run(Workers(CONFIGURATION.spark, links=[link.name])))
    assert begun == [link, asked]
    assert isinstance(run.error, PlanRefused)
