"""What a controller left behind that is gone is ended by whoever needs it, without the source."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from isthmus.errors import GateNotMet
from isthmus.fabric.fabric import Fabric, Promoting
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, LeaseDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.pulse import BEAT_S
from isthmus.local import LocalCluster
from isthmus.local.host import start_of, whereabouts
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.spark.leases.tenure import REVOCATION_S
from testing.links.controllers import controller
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import cut
from testing.runs.declaring import name as name
from testing.runs.declaring import written as remember
from testing.values.audited import LANE

pytestmark = pytest.mark.integration

ELSEWHERE = Whereabouts(host="elsewhere", host_id="another boot", pid=7, process_start=7)


def killed() -> Whereabouts:
    """A process of this host that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = start_of(process.pid)
        assert start is not None
        process.kill()
    return replace(whereabouts(), pid=process.pid, process_start=start)


def left(both: Configuration, west: LocalCluster, name: str, process: Whereabouts) -> LeaseDocument:
    """A declared link whose controller has left a lease in the ledger, which nobody has ended."""
    topics.create(west, f"{name}.x-1")
    each = NamespaceMap.parse(f"{name}.a-:{name}.x-")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each], validate=False)
    topic = TargetTopic(f"{name}.x-1")
    lane = replace(LANE, source_topic=SourceTopic(f"{name}.a-1"), target_topic=topic)
    lease = LeaseDocument(link=name, slot=0, controller=1, generation=3, revision=4, lanes=(lane,))
    asyncio.run(remember(both.cluster("west"), controller(name, process), lease))
    return lease


def promoter(both: Configuration, name: str, timeout_s: float = 60.0) -> Promoting:
    """Of the link while its source is away."""
    return Fabric(cut(both, "east")).link(name).promoter(timeout_s=timeout_s)


@pytest.mark.parametrize("process", ["killed", "silent"])
def test_failover_ends_what_a_controller_left(both: Configuration, west: LocalCluster, name: str, process: str) -> None:
    """One that was killed here, or of another host and silent: its tasks are overtaken and waited for as long as one of
    them may write, and who comes next knows that they may have left something on its way.
    """
    lease = left(both, west, name, killed() if process == "killed" else ELSEWHERE)
    begun = time.monotonic()
    assert promoter(both, name).failover().is_done
    assert time.monotonic() - begun >= REVOCATION_S
    documents = asyncio.run(said(both.cluster("west"), name))
    assert documents[lease.key] == replace(lease, ended_through=3, is_clean=False)
    assert f"{ControllerDocument.KIND}/{name}" not in documents


async def said(cluster: Cluster, link: str) -> dict[str, object]:
    async with Client(cluster) as client:
        return dict(await read_documents(client, link))


@pytest.mark.parametrize("process", ["here", "elsewhere"])
def test_a_controller_that_lives_is_left_alone(
    both: Configuration, west: LocalCluster, name: str, process: str
) -> None:
    """Its process is there, however silent, or it is heard from another host: a command that needs the end of its
    lanes ends nothing.
    """
    found = replace(whereabouts(), pid=os.getpid()) if process == "here" else ELSEWHERE
    lease = left(both, west, name, found)

    async def work() -> None:
        async with beating(both.cluster("west"), controller(name, found), is_heard=process == "elsewhere"):
            with pytest.raises(GateNotMet, match="its lanes have not ended within 12 s"):
                await asyncio.to_thread(promoter(both, name, timeout_s=12.0).failover)

    asyncio.run(work())
    documents = asyncio.run(said(both.cluster("west"), name))
    assert documents[lease.key] == lease
    kept = documents[f"{ControllerDocument.KIND}/{name}"]
    assert isinstance(kept, ControllerDocument)
    assert kept.generation == 1
    asyncio.run(remember(both.cluster("west"), replace(lease, ended_through=3)))


@asynccontextmanager
async def beating(cluster: Cluster, known: ControllerDocument, *, is_heard: bool) -> AsyncIterator[None]:
    """Have the controller be heard meanwhile."""

    async def beat() -> None:
        number = known.beat
        while is_heard:
            number += 1
            await remember(cluster, replace(known, beat=number))
            await asyncio.sleep(BEAT_S)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
