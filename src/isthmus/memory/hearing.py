"""Whether a controller or a gateway lives, by its heartbeats as they come: clocks of two hosts may differ by hours."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, GatewayDocument, MovableGatewayDocument
from isthmus.ledger.pulse import SILENCE_S
from isthmus.local.host import goes_by_our_clock, liveness_of
from isthmus.memory.links import LedgerMemory, LinkMemory, Silence, now_ms, read_ledger
from isthmus.model.gateways.synchrony import HEARD_S
from isthmus.model.process.whereabouts import Liveness

_LOOK_S: Final = 0.25
_BEATS_S: Final = 3.5
"""A living gateway writes to each ledger within this time."""


class Beats:
    """How long the controller of one link has been silent, by repeated looks."""

    def __init__(self) -> None:
        self._last: ControllerDocument | None = None
        self._since = time.monotonic()

    def silent_s(self, known: LinkMemory) -> float:
        """Return for how long (s) no heartbeat came, at least.

        For a controller on this host the ledger shows it, as both go by one clock; for another one it counts from the
        first look, as its last heartbeat may have come just before.
        """
        if is_here(known):
            return known.heard_age_s(now_ms()) or 0.0
        if known.controller != self._last:
            self._last, self._since = known.controller, time.monotonic()
        return time.monotonic() - self._since

    def is_gone(self, known: LinkMemory) -> bool:
        """Whether a link has no controller any more, as a successor decides it: that is certain, or the last one, of
        another host, is silent. A process on this host that lives is only slow.
        """
        return is_gone(known) or (not is_here(known) and self.silent_s(known) > term_s(known))


def term_s(known: LinkMemory) -> float:
    """Return for how long (s) a running controller may be silent: longer where it reported that a quota holds it
    back.
    """
    return SILENCE_S + (0.0 if known.controller is None else known.controller.held_s)


def is_here(known: LinkMemory) -> bool:
    """Whether the controller of a link goes by the clock of this host."""
    return known.controller is not None and goes_by_our_clock(known.controller.whereabouts)


def is_gone(known: LinkMemory) -> bool:
    """Whether it is certain that a link has no controller: its farewell was read, or its process has ended here."""
    return known.controller is None or liveness_of(known.controller.whereabouts) is Liveness.DEAD


def has_ended(gateway: GatewayDocument) -> bool:
    """Whether it is certain that a gateway has ended: the ledger says so, or its process has ended here."""
    return gateway.has_ended or liveness_of(gateway.whereabouts) is Liveness.DEAD


async def is_run(link: str, target: Client) -> bool:
    """Whether a controller runs a link. To find out that one of another host does not takes ten seconds of silence.

    :raises ClusterError: The ledger cannot be read.
    """
    memory = await read_ledger(target)
    before = memory.of(link).copy()
    if is_gone(before):
        return False
    if is_here(before):
        return Beats().silent_s(before) < term_s(before)
    return link in await find_heard(memory, {link: before})


async def find_heard(memory: LedgerMemory, before: Mapping[str, LinkMemory]) -> set[str]:
    """Return the links whose controllers are heard from now on, in ten seconds at most.

    :raises ClusterError: The ledger cannot be read any more.
    """
    waiting, found = set(before), set[str]()
    deadline = Deadline(max(map(term_s, before.values()), default=SILENCE_S))
    while waiting and not deadline.has_passed:
        await asyncio.sleep(_LOOK_S)
        await memory.refresh()
        for link in list(waiting):
            controller = memory.of(link).controller
            if controller != before[link].controller:
                waiting.discard(link)
                if controller is not None:
                    found.add(link)
    return found


def is_told(silences: Iterable[Silence], *, is_patient: bool = False) -> bool:
    """Whether it is certain, by all that a gateway writes, that it is heard or that it is not. A gateway that is silent
    by the clocks is given the time for a heartbeat, or with `is_patient` as long as any other; one that is not is
    silent once it was not heard for as long as that takes.
    """
    found, beats_s = tuple(silences), HEARD_S if is_patient else _BEATS_S
    return any(each.most_s <= HEARD_S for each in found) or all(
        each.least_s > HEARD_S or (each.told_s > HEARD_S and each.least_s > beats_s) for each in found
    )


async def heard_gateways(ledgers: Collection[LedgerMemory], *, is_patient: bool = False) -> bool:
    """Read these ledgers until it is certain which gateways are heard, whatever their clocks are: in ten seconds at
    most, or in one where all are. A ledger that cannot be read any more stays as it was. Return whether all is certain
    by then.
    """
    is_certain = partial(is_told, is_patient=is_patient)
    following = list(ledgers)
    while following and not all(map(is_certain, _by_gateway(following))):
        await asyncio.sleep(_LOOK_S)
        done = await asyncio.gather(*(_is_refreshed(each) for each in following))
        following = [each for each, is_refreshed in zip(following, done, strict=True) if is_refreshed]
    return all(map(is_certain, _by_gateway(ledgers)))


async def _is_refreshed(memory: LedgerMemory) -> bool:
    try:
        async with asyncio.timeout(_BEATS_S):
            await memory.refresh()
    except (ClusterError, PlanRefused, TimeoutError):
        return False
    return True


def _by_gateway(ledgers: Iterable[LedgerMemory]) -> Iterable[list[Silence]]:
    found = defaultdict[str, list[Silence]](list)
    for memory in ledgers:
        silences = memory.unlinked_silences(now_ms())
        for key, each in memory.find_unlinked().items():
            if isinstance(each, MovableGatewayDocument) or (isinstance(each, GatewayDocument) and not has_ended(each)):
                found[each.gateway].append(silences[key])
    return found.values()
