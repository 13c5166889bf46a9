"""The document of a gateway in ledgers: its identity, and its figures."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from typing import Final

from isthmus import __version__
from isthmus.gateway.ports import BrokerPorts
from isthmus.gateway.server import Gateway, GatewaySettings
from isthmus.ledger.documents.gateways import GatewayDocument, HeldForLink, RefusedCount
from isthmus.local.host import whereabouts

_MS_PER_S: Final = 1000


def registration(settings: GatewaySettings) -> GatewayDocument:
    """Build the document of this process, with a new id."""
    here = whereabouts()
    return GatewayDocument(
        gateway=uuid.uuid4().hex,
        host=here.host,
        pid=here.pid,
        advertised=str(settings.advertise),
        ports=(settings.listen.first, settings.listen.last),
        version=__version__,
        since_ms=int(time.time() * _MS_PER_S),
        host_id=here.host_id,
        process_start=here.process_start,
        command=os.getppid() if settings.shares_ports else here.pid,
        processes=settings.processes,
    )


def beaten(document: GatewayDocument, gateway: Gateway | None) -> GatewayDocument:
    """Return the document with the next heartbeat, and the current figures of the gateway."""
    if gateway is None:
        return replace(document, beat=document.beat + 1)
    places = gateway.places
    figures = gateway.figures()
    held = {} if gateway.keeper is None else gateway.keeper.count_held()
    return replace(
        document,
        first_node=places.first_node if isinstance(places, BrokerPorts) else -1,
        beat=document.beat + 1,
        connections=figures.connections,
        held=tuple(HeldForLink(link, each.answers, int(each.oldest_s * _MS_PER_S)) for link, each in held.items()),
        refused=tuple(RefusedCount(str(why), count) for why, count in sorted(figures.refused.items())),
    )
