"""Connections that requests have one after the other."""

from __future__ import annotations

import asyncio

from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.web.lending import Lending

EAST = Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",))


async def _client(lending: Lending) -> Client:
    async with lending.session() as session:
        return session.client(EAST)


def test_one_request_after_the_other_has_the_same_client() -> None:
    """Also two at a time; nobody dials anew or reads a ledger again."""

    async def scenario() -> None:
        lending = Lending()
        first = await _client(lending)
        assert list(await asyncio.gather(_client(lending), _client(lending))) == [first, first]
        await lending.aclose()

    asyncio.run(scenario())


def test_clusters_that_nobody_asks_for_are_left() -> None:
    """Not while a request is worked on; the next one dials anew."""

    async def scenario() -> None:
        left: list[ClientSession] = []
        lending = Lending(kept_s=0.0)
        async with lending.session() as session, lending.session() as same:
            assert same is session
            first = session.client(EAST)
            await asyncio.sleep(0)
            left.append(session)
        async with lending.session() as session:
            # Whoever comes before the others have gone keeps them.
            assert session is left[0]
            assert session.client(EAST) is first
        while await _client(lending) is first:
            await asyncio.sleep(0.001)
        await lending.aclose()

    asyncio.run(scenario())


def test_an_old_session_is_left() -> None:
    """However often it is asked for: a cluster may have come back as another one."""

    async def scenario() -> None:
        lending = Lending(old_s=0.0)
        async with lending.session() as first:
            await asyncio.sleep(0.01)
            async with lending.session() as same:
                assert same is first
        assert await _client(lending) is not first.client(EAST)
        await lending.aclose()

    asyncio.run(scenario())


def test_another_event_loop_has_clients_of_its_own() -> None:
    """A connection belongs to the loop it was made in."""
    lending = Lending()
    assert asyncio.run(_client(lending)) is not asyncio.run(_client(lending))
