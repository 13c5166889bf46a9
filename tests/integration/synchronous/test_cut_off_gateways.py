"""A gateway that is cut off from the ledger goes on serving clients, and hears of no link that becomes synchronous."""

from __future__ import annotations

import asyncio
import time
import uuid
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import PlanRefused
from isthmus.fabric.fabric import open_fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import GatewayDocument, MovableGatewayDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.memory.links import read_ledger
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.registered import RegisteredGateway
from isthmus.model.links.pair import PairState
from testing.brokers.hanging import trusting
from testing.brokers.proxy import HOST, Proxy, Weather
from testing.links.synchronous import Side, Trial, Writer, begun, gateway, reached_through, run_beside
from testing.patience import TERM_S

pytestmark = pytest.mark.integration

ELSEWHERE = GatewayDocument(
    gateway=uuid.uuid4().hex,
    host="elsewhere",
    pid=7,
    advertised="elsewhere.example:19092",
    ports=(19092, 19099),
    version="1",
    since_ms=0,
    host_id="another boot",
    process_start=1,
)
"""A gateway of a host that is gone."""


def shown(trial: Trial, address: str) -> RegisteredGateway | None:
    """What is shown of a gateway, if it is known."""
    found = open_fabric(trial.direct, declared=True).gateways("east").gateways
    return next((each for each in found if each.address == address), None)


def is_silent(trial: Trial, side: Side, silent: int) -> None:
    """Wait until nobody hears a gateway any more, or it is heard again."""
    deadline = time.monotonic() + TERM_S
    while (found := shown(trial, f"{HOST}:{side.port}")) is None or found.silent != silent:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def is_refused(trial: Trial) -> None:
    """A gateway is not heard, and nobody has said that it has ended."""
    with pytest.raises(PlanRefused, match="was not heard") as refused:
        trial.mode("sync")
    assert "isthmus gateway forget east" in refused.value.hint


def is_forgotten(trial: Trial) -> None:
    """By the word of an operator a gateway has ended: it is known no more, once all that it answered is proven."""
    word = MovableGatewayDocument(
        gateway=ELSEWHERE.gateway, described=ELSEWHERE.described, serves=trial.source.cluster_id, ports=8
    )

    async def come() -> None:
        for alias in ("east", "guarded"):
            async with Client(trial.direct.cluster(alias)) as client:
                await append_once(client, [word, *([ELSEWHERE] * (alias == "east"))], replication_factor=None)

    asyncio.run(come())
    trial.stands(PairState.SYNCING)
    deadline = time.monotonic() + TERM_S
    while (told := trial.status().sync) is None or "isthmus gateway forget" not in told.in_words:
        assert time.monotonic() < deadline, told
        time.sleep(0.5)
    assert ELSEWHERE.described in told.in_words
    fabric, address = open_fabric(trial.direct, declared=True), ELSEWHERE.advertised
    for dry_run in (True, False):
        found = fabric.forget_gateway("east", address if dry_run else ELSEWHERE.gateway[:8], dry_run=dry_run)
        assert (found.gateway.ids, found.ledgers, found.away) == ((ELSEWHERE.gateway,), ("east", "guarded"), {})
        assert found.links == (trial.name,)
        assert dry_run is (shown(trial, address) is not None and len(movable(trial)) == 2)
    deadline = time.monotonic() + TERM_S
    while shown(trial, address) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert movable(trial) == []


def movable(trial: Trial) -> list[str]:
    """The clusters whose ledgers know the gateway of the host that is gone as one whose clients move."""

    async def story() -> list[str]:
        found = list[str]()
        for alias in ("east", "guarded"):
            async with Client(trial.direct.cluster(alias)) as client:
                known = (await read_ledger(client)).find_unlinked().values()
            found += [alias for each in MovableGatewayDocument.find_all(known)
                      if each.gateway == ELSEWHERE.gateway]  # fmt: skip
        return found

    return asyncio.run(story())


def holds(trial: Trial, writer: Writer, lanes: Proxy) -> None:
    """What is acknowledged is at the follower, also while nothing comes to it."""
    trial.mode("sync")
    trial.stands(PairState.IN_SYNC)
    before = len(writer.acknowledged)
    with lanes.weather(Weather.CUT):
        writer.write(trial.topic, timeout_s=3)
    writer.write(trial.topic)
    assert (len(writer.acknowledged), writer.broken) == (before + 1, [])


def test_a_gateway_that_is_cut_off_keeps_a_link_from_being_synchronous(
    east: LocalCluster, guarded: LocalCluster, spark: SparkSession
) -> None:
    """What it would answer is not at the follower. Once it is heard again, or is said to have ended, it may be."""
    trial = begun("cut-off", east, guarded)

    def scenario(lanes: Proxy, ledger: Proxy, by_ledger: Configuration) -> None:
        trial.stands(PairState.FOLLOWING)
        trial.fabric.cluster("guarded").namespaces.enforce(trial.each.target, super_user=True)
        with gateway(trial.direct) as one:
            with gateway(trial.direct, ledgers=by_ledger) as other:
                writer = Writer(other.port, trial.follower, trial.given_up)
                with ledger.weather(Weather.CUT):
                    is_silent(trial, other, 1)
                    is_refused(trial)
                    writer.write(trial.topic)
                    assert writer.acknowledged == [0], "the link is asynchronous: it passes on what is written"
                is_silent(trial, other, 0)
                with pytest.raises(PlanRefused, match="has not ended"):
                    open_fabric(trial.direct, declared=True).forget_gateway("east", f"{HOST}:{other.port}")
                holds(trial, writer, lanes)
            is_forgotten(trial)
            holds(trial, Writer(one.port, trial.follower, trial.given_up), lanes)

    with trusting(guarded), reached_through(trial) as (through, lanes), reached_through(trial) as (by_ledger, ledger):
        run_beside(trial, spark, partial(scenario, lanes, ledger, by_ledger), through)
