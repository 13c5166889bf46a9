"""Controllers that tests start, and what their leases, Spark jobs and ends show."""

from __future__ import annotations

import asyncio
from typing import Any

from pyspark.sql import SparkSession

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, LeaseDocument
from isthmus.ledger.link import read_documents
from isthmus.local import LocalCluster
from isthmus.model.process.whereabouts import Whereabouts
from testing.brokers.proxy import Link, Proxy


async def leases_of(west: LocalCluster, link: str) -> dict[int, tuple[int, int]]:
    """The controller and the newest lease of each slot, as the ledger has it."""
    async with Client(west.cluster()) as client:
        documents = (await read_documents(client)).values()
    found = LeaseDocument.find_all(documents, link)
    return {d.slot: (d.controller, d.generation) for d in found}


def descriptions(spark: SparkSession) -> set[str]:
    """What describes the jobs of an application, from the store behind the UI and the REST API."""
    context: Any = spark.sparkContext
    jobs = context._jsc.sc().statusStore().jobsList(None)
    found = (jobs.apply(number).description() for number in range(jobs.size()))
    return {each.get() for each in found if each.isDefined()}


def controller(link: str, process: Whereabouts, beat: int = 1) -> ControllerDocument:
    return ControllerDocument(
        link=link,
        generation=1,
        beat=beat,
        started_ms=1,
        host=process.host,
        host_id=process.host_id,
        pid=process.pid,
        process_start=process.process_start,
        version="1",
    )


class Ending(Proxy):
    """A network that is gone once so many requests have passed: connections break, and no other one is made."""

    def __init__(self, port: int, upstream_port: int, *, requests: int) -> None:
        super().__init__(port, upstream_port)
        self.requests = requests

    async def destination(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        if self.requests <= 0:
            raise OSError
        return await super().destination(reader, writer)

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        if not is_answer:
            self.requests -= 1
        return len(chunk) if self.requests >= 0 else 0
