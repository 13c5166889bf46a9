"""Run a gateway from its registration to its farewell, at the cluster that it serves and at those that it moves to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

from isthmus.errors import NotAuthorized
from isthmus.gateway.farewell import Farewell
from isthmus.gateway.frames.duties import Duties
from isthmus.gateway.moving import moving_with
from isthmus.gateway.registering import registration
from isthmus.gateway.server import Gateway, GatewaySettings, check_settings, listening
from isthmus.gateway.synchronous.targets import WRITE_S
from isthmus.gateway.synchrony import GatewayLinks, unreadable_error
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import (
    GatewayDocument,
)
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import LEDGER_TOPIC, on_topic
from isthmus.memory.links import read_ledger
from isthmus.model.configuration import Configuration


@contextlib.asynccontextmanager
async def standing(configuration: Configuration, alias: str, settings: GatewaySettings) -> AsyncIterator[Gateway]:
    """Run a gateway for as long as the block runs: it listens, holds the acknowledgements of the synchronous links of
    the cluster that it serves, and moves its clients with links.

    Raises what `listening` does.
    """
    # Before it is in any ledger: a gateway that a wrong setting ends at once must not be registered.
    check_settings(configuration.cluster(alias), settings)
    await require_ledger(configuration, alias, settings)
    held, leaving = [await _begin_links(configuration, alias, settings)], dict[str, Farewell]()

    @contextlib.asynccontextmanager
    async def beside(gateway: Gateway) -> AsyncIterator[None]:
        async def duties_at(alias: str) -> Duties:
            is_traced = False
            if alias in leaving:
                former = leaving[alias]
                # The former farewell would delete the documents that are written there again.
                await former.end()
                is_traced = former.leaves_traces
            links = await _begin_links(configuration, alias, settings, held[0].document, is_traced=is_traced)
            leaving.pop(alias, None)
            links.stand_behind(gateway)
            held.append(links)
            left = held.pop(0)
            # The farewell begins once the gateway has turned.
            leaving[left.alias] = Farewell(left)
            return links

        held[0].stand_behind(gateway)
        gateway.duties_at = duties_at
        async with moving_with(configuration, settings, held[0].document)(gateway):
            yield

    try:
        async with listening(configuration.cluster(alias), settings, held[0], beside) as gateway:
            yield gateway
    finally:
        await asyncio.gather(*(each.end() for each in leaving.values()), *(each.aclose() for each in held))


async def require_ledger(configuration: Configuration, alias: str, settings: GatewaySettings) -> None:
    """Require that a gateway may read and write the ledger of the cluster that it is to serve.

    :raises NotAuthorized: It may not: controllers could not know that this gateway holds nothing, nor wait for it.
    :raises ClusterError: The ledger cannot be read or written.
    """
    # A deletion of a key that does not exist tests the right to write, and changes nothing.
    nothing = [Deletion(registration(settings).key)]
    async with ClientSession() as session:
        client = session.client(configuration.cluster(alias))
        writer = LedgerWriter(client, in_order=True)
        try:
            write = partial(writer.append, nothing, term_s=WRITE_S)
            await on_topic(client, write, replication_factor=configuration.written.ledger.replication_factor)
        except NotAuthorized as error:
            raise NotAuthorized(
                f"a gateway is waited for by the ledger of {alias}, where it has to be written: {error}",
                cluster=alias,
                hint=error.hint or f"Allow its login WRITE on topic {LEDGER_TOPIC} of {alias}.",
            ) from error
        finally:
            writer.close()
        try:
            await read_ledger(client)
        except NotAuthorized as error:
            raise unreadable_error(alias, error) from error


async def _begin_links(
    configuration: Configuration,
    alias: str,
    settings: GatewaySettings,
    known: GatewayDocument | None = None,
    *,
    is_traced: bool = False,
) -> GatewayLinks:
    """Register a gateway at a cluster, as `known` if another cluster has it already, and return the links there.

    :raises ClusterError: The ledger of the cluster cannot be read.
    """
    links = GatewayLinks(configuration, alias, settings, known, is_traced=is_traced)
    try:
        await links.begin()
    except BaseException:
        await links.aclose()
        raise
    return links
