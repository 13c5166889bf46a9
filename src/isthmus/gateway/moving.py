"""Move clients to another cluster: a gateway does that when the ledgers of its clusters ask for it.

It takes no more requests and waits for all answers (the fence), reports that, and waits for the decision: clients go on
where they were, or are served from the other cluster. The controller that moves the clients sends heartbeats all the
time. Without them the gateway calls the move off, and goes on once the ledger shows that its document was the first. So
a gateway that was paused, or cut off, lets no request pass after a decision that it has not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, ConfigError, IsthmusError, NotAuthorized, PlanRefused, Unreachable
from isthmus.gateway.arriving import (
    carried_from,
    check_arrived,
    forget_overtaken,
    hidden_ids,
    resolve_doubts,
    take_hidden,
    take_reserved,
)
from isthmus.gateway.certified import lacking
from isthmus.gateway.frames.hidden import HIDING, HiddenTopics
from isthmus.gateway.frames.messages import END_TXN, WAITING
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.registering import registration
from isthmus.gateway.server import Beside, Gateway, GatewaySettings, nothing
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import (
    GatewayDocument,
    MovableGatewayDocument,
    MoveDocument,
    NamespaceDocument,
)
from isthmus.ledger.documents.moves import MovesAway, arrived_by
from isthmus.ledger.log import LedgerWriter, News
from isthmus.ledger.records import Deletion, Entry, LedgerChange
from isthmus.ledger.topic import is_missing
from isthmus.ledger.view import LedgerView
from isthmus.local.host import liveness_of
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.gateways.producerids import cluster_tag
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.text.wording import format_count

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.1
_RETRY_S: Final = 1.0
_BEAT_S: Final = 3.0
_HEARD_S: Final = 15.0
_DRAIN_S: Final = 10.0
_STEP_S: Final = 0.02
_BEGIN_S: Final = 15.0
_ASLEEP_S: Final = 5.0
_UNREADABLE_S: Final = 30.0
_FAREWELL_S: Final = 2.0
_IDS_S: Final = 1.0
_TAKEN: Final = HIDING | {MoveDocument.KIND, NamespaceDocument.KIND}


@asynccontextmanager
async def movable(
    gateway: Gateway, *, configuration: Configuration, known: GatewayDocument, ports: int, logs_in: bool
) -> AsyncIterator[None]:
    """Move clients of the gateway to another cluster when the ledgers ask for it, for as long as the block runs.
    `known` is the document of the gateway. The block begins once the ledger of the cluster that is served has been
    read, as clients may have moved before.

    :raises ClusterError: The ledger cannot be read.
    """
    word = MovableGatewayDocument(
        gateway=known.gateway,
        described=known.described,
        serves=gateway.cluster.cluster_id or "",
        ports=ports,
        keeps_reserved=True,
        hides=True,
        host_id=known.host_id,
        pid=known.pid,
        process_start=known.process_start,
    )
    mover = Mover(gateway, configuration, word, logs_in)
    tasks = [
        asyncio.create_task(mover.follow()),
        asyncio.create_task(resolve_doubts(gateway)),
        asyncio.create_task(check_arrived(gateway)),
    ]
    try:
        await mover.begin()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def moving_with(
    configuration: Configuration | None, settings: GatewaySettings, known: GatewayDocument | None = None
) -> Beside:
    """Return what runs beside a gateway of these settings: it moves clients to clusters of a configuration, if there is
    one. `known` is the document of the gateway.
    """
    if configuration is None:
        return nothing
    return partial(
        movable,
        configuration=configuration,
        known=known or registration(settings),
        ports=settings.nodes_max,
        logs_in=settings.client_ca is not None,
    )


@dataclass(slots=True)
class _Heard:
    """The newest heartbeat of the move that fences this gateway, and when (monotonic s) it came."""

    move: str = ""
    beat: int = -1
    at: float = 0.0


@dataclass(slots=True)
class _Place:
    """A ledger that is followed, and the state of what this gateway reports there."""

    client: Client
    view: LedgerView
    writer: LedgerWriter
    written: MovableGatewayDocument | None = None
    written_at: float = 0.0
    is_there: bool = False
    shows_us: bool = False
    is_overlaid: bool = False
    away: MovesAway = field(default_factory=MovesAway)
    untaken: list[Entry] = field(default_factory=list)
    others: dict[str, Entry] = field(default_factory=dict)
    may_tell_from: float = 0.0
    ids_at: float = float("-inf")


@dataclass(slots=True)
class Mover:
    """Moves the clients of a gateway to a cluster of its configuration. `word` is the document it writes of itself.

    A gateway that `logs_in` clients by their certificates uses the logins of the cluster that it serves.
    """

    gateway: Gateway
    configuration: Configuration
    word: MovableGatewayDocument
    logs_in: bool = False
    _looked: set[str] = field(default_factory=set)
    _problems: dict[str, IsthmusError] = field(default_factory=dict)
    _known_at: set[str] = field(default_factory=set)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _fencing: asyncio.Task[None] | None = None
    _heard: _Heard = field(default_factory=_Heard)
    _leaving: dict[str, MoveDocument] = field(default_factory=dict)
    _served: dict[str, MoveDocument] = field(default_factory=dict)
    _reserved: dict[str, ReservedNames] = field(default_factory=dict)
    _hidden: dict[str, HiddenTopics] = field(default_factory=dict)
    _is_due: bool = False
    _has_begun: bool = False
    _complaint: str = ""
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        here = self.gateway.cluster.alias
        aliases = {here, *(each.alias for each in self.configuration.clusters)}
        self._reserved = {each: ReservedNames() for each in aliases}
        self._hidden = {each: HiddenTopics() for each in aliases}
        serving = self.gateway.serving
        self.gateway.serving = replace(serving, reserved=self._reserved[here], hidden=self._hidden[here])

    async def follow(self) -> None:
        """Follow the ledgers of all clusters, until cancelled."""
        async with self._stack:
            try:
                async with asyncio.TaskGroup() as group:
                    for cluster in self.configuration.clusters:
                        group.create_task(self._follow(cluster.alias))
            finally:
                await self._end_fencing()

    async def begin(self) -> None:
        """Wait until the ledger of the cluster that is served was read, with the names that are reserved and hidden
        there, and the ledgers of other clusters that can be read.

        :raises ClusterError: The ledger of the served cluster cannot be read.
        :raises ConfigError: Clients have moved to a cluster that the configuration does not have.
        """
        alias, deadline = self.gateway.cluster.alias, Deadline(_BEGIN_S)
        # The decision of a failover is in the ledger of its target alone.
        others = {each.alias for each in self.configuration.clusters} - {alias}
        while alias not in self._looked or (not deadline.has_passed and others - self._looked - self._problems.keys()):
            problem = self._problems.get(alias)
            if isinstance(problem, ConfigError):
                raise problem
            if deadline.has_passed:
                raise Unreachable(
                    f"the ledger of {alias} cannot be followed, so it is not known whether clients have moved to "
                    "another cluster, and which names are reserved or "
                    f"hidden{f': {problem}' if problem is not None else ''}",
                    cluster=alias,
                )
            await asyncio.sleep(_STEP_S)
        self._has_begun = True

    async def _follow(self, alias: str) -> None:
        async with ClientSession() as session:
            client = session.client(self.configuration.cluster(alias))
            place = _Place(client, LedgerView(client), LedgerWriter(client, in_order=True))
            try:
                while True:
                    try:
                        await self._look(place)
                    except NotAuthorized as error:
                        if alias not in self._looked:
                            _log.warning(
                                "the ledger of %s cannot be read: moves of clients, reserved names and hidden topics "
                                "in it are not known here, and not followed: %s", alias, error,
                            )  # fmt: skip
                        else:
                            self._complain(alias, error)
                        self._looked.add(alias)
                        await asyncio.sleep(_UNREADABLE_S)
                    except (ClusterError, ConfigError, PlanRefused) as error:
                        self._complain(alias, error)
                        self._problems[alias] = error
                        await asyncio.sleep(_RETRY_S)
                    except Exception:  # noqa: BLE001 - connected clients go on
                        _log.exception("the ledger of %s could not be followed", alias)
                        await asyncio.sleep(_RETRY_S)
                    await asyncio.sleep(_LOOK_S)
            finally:
                await _delete_own_document(place, self.word)

    def _complain(self, alias: str, error: IsthmusError) -> None:
        """Log an error: as a warning, once, if it keeps clients waiting or does not end by itself; else as debug."""
        keeps_waiting = (self._is_due or self.gateway.is_in_doubt) and self.gateway.is_fenced
        is_new = keeps_waiting and str(error) != self._complaint
        if is_new:
            self._complaint = str(error)
        lasts = isinstance(error, PlanRefused) and str(error) != str(self._problems.get(alias))
        _log.log(logging.WARNING if is_new or lasts else logging.DEBUG, "the ledger of %s: %s", alias, error)

    async def _look(self, place: _Place) -> None:
        begun, alias = time.monotonic(), place.client.cluster.alias
        reserved, hidden = self._reserved[alias], self._hidden[alias]
        news = await place.view.look()
        if news.is_other_log:
            place.away, place.shows_us, place.untaken = MovesAway(), False, []
            reserved.forget()
            hidden.forget()
        place.is_there = place.is_there or bool(news.entries)
        place.shows_us = place.shows_us or any(entry.key == self.word.key for entry in news.entries)
        # A look returns each entry once: keep those that came with or after one that this release cannot read.
        self._note_others(place, news)
        place.untaken += (entry for entry in news.entries if entry.kind in _TAKEN)
        take_reserved(reserved, place.untaken, place.client.cluster.cluster_id)
        if place.untaken or news.is_other_log:
            self._hide(place, hidden)
        moves = [(each.key, each.decode()) for each in place.untaken if each.kind == MoveDocument.KIND]
        place.untaken, reserved.heard_at = [], begun
        for key, document in moves:
            if document is None:
                self._forget(place, key)
            elif isinstance(document, MoveDocument):
                self._take_move(place, document)
        try:
            async with self._taking:
                if self._is_due:
                    await self._take()
                    self._is_due = False
        finally:
            await self._report(place)
        gateway = self.gateway
        if gateway.is_in_doubt and place.client.cluster.alias == gateway.cluster.alias and begun > gateway.doubted_at:
            gateway.fence(is_up=False, why="doubt")
        if place.shows_us or not place.is_there or place.may_tell_from:
            # A later fence finds this gateway in the ledger; an earlier one has been read.
            self._looked.add(alias)
        await self._learn_ids(place, hidden)

    def _note_others(self, place: _Place, news: News) -> None:
        """Remember the documents of other gateways."""
        if news.is_other_log:
            place.others = {}
        for entry in news.entries:
            if entry.kind == MovableGatewayDocument.KIND and entry.key != self.word.key:
                place.others[entry.key] = entry
                if entry.value is None:
                    del place.others[entry.key]

    def _hide(self, place: _Place, hidden: HiddenTopics) -> None:
        """Hide topics of links that are SYNCING, and show those of links that are no longer SYNCING."""
        before, alias = hidden.links, place.client.cluster.alias
        is_more = take_hidden(hidden, place.untaken, place.client.cluster.cluster_id)
        if hidden.links != before and self.gateway.cluster.alias == alias:
            for link in hidden.links:
                _log.info("link %s is SYNCING: consumers cannot read its topics here until it is IN_SYNC", link)
            for link in set(before) - set(hidden.links):
                _log.info("topics of link %s are read again", link)
        if is_more and self.gateway.cluster.alias == alias:
            # Fetches that wait already would return records that came since.
            self.gateway.part_readers()

    async def _learn_ids(self, place: _Place, hidden: HiddenTopics) -> None:
        now, is_served = time.monotonic(), place.client.cluster.alias == self.gateway.cluster.alias
        if is_served and hidden and (hidden.ids is None or now - place.ids_at > _IDS_S):
            place.ids_at = now
            try:
                # Heartbeats of a move must be read meanwhile.
                async with asyncio.timeout(_IDS_S):
                    await hidden_ids(place.client, hidden)
            except (ClusterError, TimeoutError) as error:
                _log.debug("ids of topics of %s: %s", place.client.cluster.alias, error)

    def _take_move(self, place: _Place, document: MoveDocument) -> None:
        """Take in a move; for moves away from the cluster of the ledger, `MovesAway` decides which document counts."""
        if document.source == place.client.cluster.cluster_id and not place.away.take(document):
            # A reader of the compacted ledger must not take it for the decision.
            place.is_overlaid = document.step is MoveStep.SERVE and not place.away.is_decided(document.move)
            return
        known = self._served.get(document.source)
        if document.step is not MoveStep.SERVE:
            self._leaving[document.source], self._is_due = document, True
        elif known is None or document.stay > known.stay:
            self._served[document.source], self._is_due = document, True

    def _forget(self, place: _Place, key: str) -> None:
        """Forget the move with this key, which was deleted: that counts for gateways that are started later."""
        for known in (self._served, self._leaving):
            for source in [source for source, document in known.items() if document.key == key]:
                del known[source]
        if place.away.latest is not None and place.away.latest.key == key:
            place.away = MovesAway()

    async def _report(self, place: _Place) -> None:
        """Write the document of this gateway to the ledger, if there is a ledger."""
        now = time.monotonic()
        if place.is_overlaid and place.away.latest is not None:
            await _append(place, place.away.latest)
            place.is_overlaid = False
        word = replace(self.word, beat=0, lacks=self._find_lacking(place))
        if not place.is_there or (word == place.written and now - place.written_at < _BEAT_S):
            return
        if now < place.may_tell_from:
            return
        beat = int(now * 1000)
        try:
            await _append(place, replace(word, beat=beat))
        except NotAuthorized as error:
            if not place.may_tell_from:
                _log.warning("the ledger of %s does not learn of this gateway: %s", place.client.cluster.alias, error)
            place.may_tell_from = now + _UNREADABLE_S
            return
        self._known_at.add(place.client.cluster.alias)
        if place.client.cluster.alias == self.gateway.cluster.alias:
            # Controllers give up on this gateway after a longer time, and do not wait for one that is not in the
            # ledger.
            self.gateway.asleep_max_s = _ASLEEP_S
        place.written, place.written_at = word, now
        await _delete_ended(place)

    def _find_lacking(self, place: _Place) -> tuple[str, ...]:
        """Find the certificates that would be refused if clients moved to the cluster of this ledger."""
        return lacking(self.gateway.cluster, place.client.cluster) if self.logs_in else ()

    async def _take(self) -> None:
        """Act on the moves in the ledgers."""
        gateway = self.gateway
        here = gateway.cluster.cluster_id or ""
        arrived = arrived_by(here, self._served.values())
        # Clients that arrive from another cluster do not change where this gateway serves its own clients.
        if (
            arrived is not None
            and arrived.stay > gateway.serving.stay
            and (arrived.target != here or not self._has_begun)
        ):
            await self._end_fencing()
            await self._turn(arrived)
            here = arrived.target
        leaving = self._leaving.get(here)
        if leaving is None or leaving.stay <= gateway.serving.stay:
            return
        if leaving.step is MoveStep.OFF:
            await self._end_fencing()
            if gateway.is_fenced:
                _log.warning("the move of clients was called off, by %s: they stay at their cluster", leaving.by)
            gateway.fence(is_up=False)
        else:
            self._take_heartbeat(leaving)

    def _take_heartbeat(self, document: MoveDocument) -> None:
        if (self._heard.move, self._heard.beat) != (document.move, document.beat):
            is_new = self._heard.move != document.move
            self._heard = _Heard(document.move, document.beat, time.monotonic())
            if is_new or self._fencing is None or self._fencing.done():
                if self._fencing is not None:
                    self._fencing.cancel()
                self.gateway.fence(is_up=True)
                self._fencing = asyncio.create_task(self._fence(document))

    async def _end_fencing(self) -> None:
        if self._fencing is not None:
            self._fencing.cancel()
            await asyncio.gather(self._fencing, return_exceptions=True)
            self._fencing = None

    async def _fence(self, document: MoveDocument) -> None:
        """Take no more requests while heartbeats of the move arrive; without them call the move off."""
        _log.info("clients are to move to %s: no request is taken", document.target_alias)
        deadline = Deadline(_DRAIN_S)
        self.gateway.fence(is_up=True)
        while time.monotonic() - self._heard.at < _HEARD_S:
            waiting = self._find_waiting(is_late=deadline.has_passed)
            self._update_word(document.move, is_drained=not waiting, waits_for=waiting)
            await asyncio.sleep(_STEP_S)
        while not await self._call_off(document):
            await asyncio.sleep(_RETRY_S)

    def _update_word(
        self, move: str, *, is_drained: bool = False, is_serving: bool = False, waits_for: tuple[str, ...] = ()
    ) -> None:
        self.word = replace(
            self.word,
            serves=self.gateway.cluster.cluster_id or "",
            stay=self.gateway.serving.stay,
            move=move,
            is_drained=is_drained,
            is_serving=is_serving,
            waits_for=waits_for,
        )

    async def _call_off(self, document: MoveDocument) -> bool:
        """Write to the ledger of the cluster that is served that the move is called off; `_look` finds out whether that
        was in time. Whether it was written, or no controller waits for this gateway.
        """
        client = self.gateway.client
        writer = LedgerWriter(client)
        try:
            await writer.append([replace(document, step=MoveStep.OFF, by=self.word.described)])
        except ClusterError as error:
            _log.warning("the ledger of %s cannot be written: %s", client.cluster.alias, error)
            # Controllers do not wait for a gateway that may not write and is not in the ledger.
            is_alone = isinstance(error, NotAuthorized) and client.cluster.alias not in self._known_at
            if is_alone:
                self.gateway.fence(is_up=False)
            return is_alone
        finally:
            writer.close()
        return True

    def _find_waiting(self, *, is_late: bool) -> tuple[str, ...]:
        """Find the clients whose answers are waited for; once it `is_late` only those that end transactions."""
        found = set[str]()
        for passage in list(self.gateway.passages):
            owed = [key for key in passage.owed if key not in WAITING]
            if owed and (not is_late or END_TXN in owed):
                found.add(f"{passage.conversation.software.name} at {passage.address}")
        return tuple(sorted(found))

    async def _turn(self, document: MoveDocument) -> None:
        """Serve clients from the other cluster.

        :raises ClusterError: It does not answer.
        :raises ConfigError: The configuration does not have it, or has another one by that name.
        """
        gateway, alias = self.gateway, document.target_alias
        moved = f"clients of {gateway.cluster.alias} have moved to {alias} ({document.target})"
        hint = f"Give the gateway a configuration in which {alias} is that cluster, or stand it before {alias}."
        if alias not in {each.alias for each in self.configuration.clusters}:
            raise ConfigError(f"{moved}, which the configuration does not have", hint=hint)
        session = ClientSession()
        client = session.client(self.configuration.cluster(alias))
        try:
            found = await describe_cluster(client)
            if found.cluster_id != document.target:
                raise ConfigError(f"{moved}, and {alias} of the configuration is {found.cluster_id}", hint=hint)
            reserved, hidden = self._reserved[alias], self._hidden[alias]
            arrived = await carried_from(client, document.source, document.stay, reserved, hidden)
            # If this gateway is started much later, producers have gone on for long.
            await forget_overtaken(client, arrived.producers)
        except BaseException:
            await session.aclose()
            raise
        self._stack.push_async_callback(session.aclose)
        serving = Serving(
            tag=cluster_tag(found.cluster_id),
            stay=document.stay,
            common=arrived.ends,
            epochs=arrived.epochs,
            carried=arrived.producers,
            transactions=arrived.transactions,
            reserved=reserved,
            hidden=hidden,
        )
        places = gateway.places.begun_at(document.first_node)
        brokers = {node: (broker.host, broker.port) for node, broker in found.brokers.items()}
        # Before any client is answered there.
        duties = await gateway.duties_at(alias)
        gateway.turn(client, places, brokers, serving, duties)
        _log.info("clients are served from %s now", document.target_alias)
        self._update_word(document.move, is_drained=True, is_serving=True)


async def _append(place: _Place, change: LedgerChange) -> None:
    try:
        await place.writer.append([change])
    except ClusterError as error:
        if not is_missing(error):
            raise
        place.is_there = False


async def _delete_ended(place: _Place) -> None:
    """Delete from a ledger the gateways whose processes have ended on this host, so that no controller waits for them.

    :raises ClusterError: The ledger cannot be written.
    """
    ended = [key for key, entry in place.others.items() if _is_dead(entry)]
    if ended:
        await place.writer.append([Deletion(key) for key in ended])
        _log.info("%s of gateways that have ended here: taken out of the ledger of %s",
                  format_count(len(ended), "entry", "entries"), place.client.cluster.alias)  # fmt: skip


def _is_dead(entry: Entry) -> bool:
    try:
        known = entry.decode()
    except PlanRefused:
        return False
    return isinstance(known, MovableGatewayDocument) and liveness_of(known.whereabouts) is Liveness.DEAD


async def _delete_own_document(place: _Place, word: MovableGatewayDocument) -> None:
    """Delete the document of a gateway that ends, and close the ledger."""
    try:
        if place.written is not None:
            async with asyncio.timeout(_FAREWELL_S):
                await place.writer.append([Deletion(word.key)])
    except (ClusterError, TimeoutError) as error:
        _log.debug("the ledger of %s: %s", place.client.cluster.alias, error)
    finally:
        place.writer.close()
        place.view.close()
