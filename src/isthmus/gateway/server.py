"""The gateway: its listening ports, the brokers of its cluster, and its lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import random
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar
from weakref import WeakKeyDictionary

from isthmus.errors import (
    AuthenticationFailed,
    ClusterError,
    ConfigError,
    HostError,
    PlanRefused,
    PortBusy,
    Unreachable,
)
from isthmus.gateway.bounds import DEFAULTS, Admission, GatewayBounds, GatheringRoom
from isthmus.gateway.certified import (
    NotAdmitted,
    check_dates,
    check_logins,
    choose_login,
    is_certificate_needed,
    subject_of,
)
from isthmus.gateway.entering import Entrance
from isthmus.gateway.frames.duties import NO_DUTIES, Duties
from isthmus.gateway.frames.messages import CONSUMING, FETCH, SHARE_FETCH
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.passage import Passage, PassageEnd, Scratch
from isthmus.gateway.ports import BrokerNames, BrokerPlaces, ListenRange, place_brokers
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.gateway.tally import GatewayTally
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.connect.address import reached_at, whereabouts, written_address
from isthmus.kafka.connect.certificates import serving_context, tls_context
from isthmus.kafka.connect.credentials import renew_credentials
from isthmus.kafka.connect.diagnosis import build_unreached
from isthmus.kafka.connect.reach import reach
from isthmus.kafka.connect.security import uses_sasl, uses_tls
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.gateways.figures import GatewayFigures, Refusal
from isthmus.model.process.listening import ListenAddress, is_unspecified
from isthmus.model.text.wording import format_count

_log = logging.getLogger(__name__)
_ProtocolT = TypeVar("_ProtocolT", bound=asyncio.BaseProtocol)
_BACKLOG: Final = 1024
_HANDSHAKE_S: Final = 10.0
_LOOK_S: Final = 1.0
_REFRESH_S: Final = 5.0
_CONTEXT_S: Final = 10.0
_DIALS_MAX: Final = 256
_SESSION_SHARE: Final = (0.75, 0.9)
"""After what share of its session a client whose login is ours is ended, from and to."""
_NODES_MAX: Final = 1 << 31
_FILES_KEPT: Final = 200
"""Files that this process needs beside those of passages, each of which takes two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Where a gateway listens, which addresses clients get, and its bounds. With a certificate and its key it speaks
    TLS, and with a CA for clients as well it logs clients in by their certificates.

    `first_node` is the id of the broker behind the first port; without one it is the lowest id that is found. Where
    names are advertised all brokers are behind one port. Where it `shares_ports`, other processes of the same user may
    listen there as well: it is one of `processes` that a command has started.
    """

    listen: ListenRange
    advertise: ListenAddress | BrokerNames
    first_node: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    bounds: GatewayBounds = DEFAULTS
    shares_ports: bool = False
    processes: int = 1

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the TLS context."""
        return tuple(file for file in (self.certificate, self.key, self.client_ca) if file is not None)

    def context(self) -> ssl.SSLContext | None:
        """Load the TLS context for clients from the files as they are now; `None` without TLS.

        :raises ConfigError: The files cannot be used.
        """
        if self.certificate is None or self.key is None:
            return None
        context = serving_context(self.certificate, self.key, self.client_ca)
        context.sni_callback = _remember_name
        return context

    @property
    def nodes_max(self) -> int:
        """The number of consecutive broker ids that there is room for."""
        return _NODES_MAX if isinstance(self.advertise, BrokerNames) else self.listen.size


Beside = Callable[["Gateway"], contextlib.AbstractAsyncContextManager[None]]
"""Work that runs beside a gateway, from before it accepts connections until it has ended."""


Fence = Literal["move", "doubt", "links"]
"""Why no request passes: clients are to move, or it is unknown whether they have, or which links are synchronous."""
DutiesAt = Callable[[str], Awaitable[Duties]]
"""Returns the duties of a gateway once it serves the cluster with this alias."""


async def no_duties(_: str) -> Duties:
    """Return no duties, for any cluster."""
    return NO_DUTIES


def nothing(_: Gateway) -> contextlib.AbstractAsyncContextManager[None]:
    """Run nothing beside the gateway."""
    return contextlib.nullcontext()


@contextlib.asynccontextmanager
async def listening(
    cluster: Cluster, settings: GatewaySettings, duties: Duties = NO_DUTIES, beside: Beside = nothing
) -> AsyncIterator[Gateway]:
    """Run a gateway that listens for as long as the block runs, and holds acknowledgements by its `duties`.

    :raises ConfigError: Certificate and key, or the range of ports, cannot be used.
    :raises PlanRefused: The range is too small for the brokers, or the cluster cannot be served.
    :raises PortBusy: Something listens at one of the ports already.
    :raises HostError: This process cannot listen there.
    :raises ClusterError: The cluster does not answer.
    """
    check_settings(cluster, settings)
    limits = _limit_connections(settings.bounds)
    context = settings.context()
    async with ClientSession() as session:
        client = session.client(cluster)
        found = await describe_cluster(client)
        places = _place_brokers(cluster, settings, {*found.brokers, *found.fenced})
        gateway = Gateway(client, places, limits, context, _keeper(duties, client))
        gateway.know({node: (broker.host, broker.port) for node, broker in found.brokers.items()})
        # DNS lookups use these threads too.
        asyncio.get_running_loop().set_default_executor(gateway.dials)
        async with beside(gateway):
            await gateway.listen(settings.listen, shares_ports=settings.shares_ports)
            _log.info("%s of %s are behind %s", places, cluster.alias, settings.listen)
            looking = [
                asyncio.create_task(gateway.watch()),
                asyncio.create_task(gateway.follow(settings)),
            ]
            try:
                yield gateway
            finally:
                for task in looking:
                    task.cancel()
                gateway.close()
                await asyncio.gather(*looking, return_exceptions=True)
                await gateway.hold_nothing()


def _keeper(duties: Duties, client: Client) -> Keeper | None:
    return None if duties is NO_DUTIES else Keeper(duties, client)


async def settle_ports(cluster: Cluster, settings: GatewaySettings) -> GatewaySettings:
    """Require that all ports are free and enough, and return the settings for processes that share them, with the
    first broker that all of them use.

    Raises what `listening` does.
    """
    check_settings(cluster, settings)
    async with ClientSession() as session:
        found = await describe_cluster(session.client(cluster))
    places = _place_brokers(cluster, settings, {*found.brokers, *found.fenced})
    for index in range(settings.listen.size):
        address = ListenAddress(settings.listen.host, settings.listen.first + index)
        try:
            # Without reuse_port this fails also if other processes share the port.
            server = await asyncio.get_running_loop().create_server(asyncio.Protocol, *address)
            server.close()
        except OSError as error:
            raise _listen_error(address, error) from error
    first_node = None if isinstance(places, BrokerNames) else places.first_node
    return replace(settings, first_node=first_node, shares_ports=True)


def _place_brokers(cluster: Cluster, settings: GatewaySettings, ids: Collection[int]) -> BrokerPlaces:
    if not ids:
        raise Unreachable(f"the broker of {cluster.alias} that answered names no brokers", cluster=cluster.alias)
    if isinstance(settings.advertise, BrokerNames):
        return settings.advertise
    return place_brokers(settings.listen, settings.advertise, ids, first_node=settings.first_node)


def _listen_error(address: ListenAddress, error: OSError) -> HostError:
    if error.errno == errno.EADDRINUSE:
        return PortBusy(
            f"the gateway cannot listen at {address}: something listens there already",
            hint="Give --listen another range, or end what listens there. All ports are needed: brokers may join.",
        )
    return HostError(
        f"the gateway cannot listen at {address}: {error.strerror or error}",
        hint="Give --listen an address of this host, and ports that this user may listen at.",
    )


def check_settings(cluster: Cluster, settings: GatewaySettings) -> None:
    """Require that a gateway of these settings could serve the cluster, as far as is known without a connection.

    :raises ConfigError: The options contradict each other, files cannot be used, or there is no login for clients.
    :raises PlanRefused: The cluster cannot be served.
    """
    if isinstance(settings.advertise, BrokerNames):
        _check_names(settings)
    elif is_unspecified(settings.advertise.host):
        raise ConfigError(
            f"clients that get {settings.advertise} look on their own host",
            hint="Give --advertise the name or the address by which clients reach this host.",
        )
    settings.context()
    if settings.client_ca is not None:
        if settings.certificate is None:
            raise ConfigError(
                "clients show a certificate over TLS only",
                hint="Give --tls-cert and --tls-key with --tls-client-ca.",
            )
        check_logins(cluster)
    elif is_certificate_needed(cluster):
        raise PlanRefused(
            f"brokers know clients of {cluster.alias} by certificates, which end at a gateway: all clients would be us",
            hint="Give --tls-client-ca, and logins of the cluster the certificates of clients; or give clients a "
            "listener with SASL, and bootstrap_servers and security of the cluster those of it.",
        )
    if cluster.proxy is not None and cluster.proxy.kind == "relay":
        raise PlanRefused(
            f"{cluster.alias} is reached through the relay {cluster.proxy}, which a gateway does not go through",
            hint="Run the gateway where the brokers can be reached, with a configuration that has no such proxy.",
        )


def _check_names(settings: GatewaySettings) -> None:
    """
    :raises ConfigError: Clients cannot be distinguished by the names they use.
    """
    if settings.certificate is None:
        raise ConfigError(
            f"without TLS clients do not state which of the names {settings.advertise} is meant",
            hint="Give --tls-cert and --tls-key, with a certificate for all of these names such as *.east.example; or "
            "give --listen a port for each broker, and --advertise the address of the first.",
        )
    if settings.listen.size > 1 or settings.first_node is not None:
        raise ConfigError(
            f"all brokers are behind one port where names are advertised, {settings.advertise}",
            hint="Give --listen a single port, and leave --first-node out.",
        )


def _limit_connections(limits: GatewayBounds) -> GatewayBounds:
    """Return the bounds, with no more connections than this process may open files for.

    :raises HostError: It may open hardly any.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    most = (soft - _FILES_KEPT) // 2
    if most < 1:
        raise HostError(f"this process may open {soft} files only", hint="Raise its limit: ulimit -n 20000.")
    if most < limits.connections:
        _log.info("this process may open %d files: there can be %s", soft, format_count(most, "connection"))
        return replace(limits, connections=most)
    return limits


class Gateway:
    """The brokers of the served cluster, and the connected clients."""

    def __init__(
        self,
        client: Client,
        places: BrokerPlaces,
        limits: GatewayBounds,
        context: ssl.SSLContext | None,
        keeper: Keeper | None = None,
    ) -> None:
        self.keeper = keeper
        self.duties_at: DutiesAt = no_duties
        self._closing = set[asyncio.Task[None]]()
        self.places = places
        self.passages = set[Passage]()
        self.dials = ThreadPoolExecutor(_DIALS_MAX, "dial")
        """Many threads of its own, so that a few dials that hang do not delay all others."""
        self.client = client
        self._cluster = client.cluster
        self._limits = limits
        self._context = context
        self._scratch = Scratch()
        self._admission = Admission(limits)
        self._rooms = GatheringRoom(limits), GatheringRoom(limits)
        """For requests, and for answers."""
        self._tally = GatewayTally()
        self._looked_at = time.monotonic()
        self.brokers: dict[int, tuple[str, int]] = {}
        self._broker_contexts = dict[str, tuple[float, ssl.SSLContext]]()
        self._needs_login = uses_sasl(self._cluster.security)
        self.serving = Serving.of(self._cluster.cluster_id)
        self._servers: list[asyncio.Server] = []
        self._is_ending = False
        self._passes = asyncio.Event()
        self._passes.set()
        self._fences = set[Fence]()
        self._awake_at = lasting_s()
        self.asleep_max_s = math.inf
        """After so long (s) without running, the gateway doubts whether it may go on."""
        self.doubted_at = -math.inf
        """When (monotonic s) it doubted last."""
        self._emptied = asyncio.Event()
        self._emptied.set()

    async def listen(self, where: ListenRange, *, shares_ports: bool = False) -> None:
        """Accept connections at all ports of the range.

        :raises PortBusy: Something listens at one of them already.
        :raises HostError: This process cannot listen there.
        """
        loop = asyncio.get_running_loop()
        for index in range(where.size):
            address, accept = ListenAddress(where.host, where.first + index), partial(self.accept, index)
            try:
                self._servers.append(
                    await loop.create_server(accept, *address, backlog=_BACKLOG, reuse_port=shares_ports)
                )
            except OSError as error:
                self.close()
                raise _listen_error(address, error) from error

    def accept(self, index: int) -> asyncio.BaseProtocol:
        """Create the protocol of a connection to the n-th port of the range."""
        return Passage(
            self._scratch,
            self._limits,
            self._move,
            self,
            self._rooms,
            index=index,
            needs_login=self._needs_login,
            serving=self.serving,
            keeper=self.keeper,
        ).client

    @property
    def is_blind(self) -> bool:
        """Whether acknowledgements are in flight that cannot be held: their requests passed while there was no
        synchronous link.
        """
        return any(passage.conversation.is_blind for passage in self.passages)

    def begin(self, passage: Passage) -> None:
        """Admit or refuse a client that has connected."""
        why = self._admission.refusal(passage.address)
        self._admission.enter(passage.address)
        self.passages.add(passage)
        self._emptied.clear()
        if self._is_ending:
            passage.abandon()
        elif why:
            passage.refuse(Refusal.TOO_MANY, why)
        else:
            passage.open(partial(self._secure, passage), partial(self._dial_for, passage))

    def note_refusal(self, passage: Passage, refusal: Refusal, why: str) -> None:
        """Count and log a client whose connection is about to be ended."""
        self._tally.refused[refusal] += 1
        _log.warning("a connection from %s was ended: %s", passage.address, why)

    def figures(self) -> GatewayFigures:
        """Return the figures counted until now."""
        return GatewayFigures(
            cluster=self._cluster.alias,
            brokers=len(self.brokers),
            metadata_age_s=time.monotonic() - self._looked_at,
            is_ending=self._is_ending,
            gathered_bytes=sum(each.taken_bytes for each in self._rooms),
            clients=self._tally.figures(self.passages),
            refused=dict(self._tally.refused),
        )

    def end(self, passage: Passage) -> None:
        """Remove a client that has gone."""
        if passage in self.passages:
            self._tally.leave(passage)
        self._admission.leave(passage.address)
        self.passages.discard(passage)
        if not self.passages:
            self._emptied.set()

    @property
    def cluster(self) -> Cluster:
        """The cluster that is served now."""
        return self._cluster

    @property
    def is_fenced(self) -> bool:
        """Whether no request passes now."""
        return not self._passes.is_set()

    def awake(self, now: float) -> None:
        """Note that the process runs at this time (`lasting_s`). A gateway that stood still may have been taken for
        ended: requests that came meanwhile must not pass before that is known, nor the rest of one that began to.
        """
        asleep_s, self._awake_at = now - self._awake_at, now
        if asleep_s > self.asleep_max_s:
            _log.warning("stood still for %.1f s: nothing passes until the ledger has been read", asleep_s)
            self.doubted_at = time.monotonic()
            for passage in list(self.passages):
                passage.end_halves()
            self.fence(is_up=True, why="doubt")
            if self.keeper is not None:
                # Gateways that took it for gone did not wait for it, and links may be in sync by now.
                self.fence(is_up=True, why="links")

    @property
    def is_in_doubt(self) -> bool:
        """Whether it stood still, and it is unknown yet whether it may go on."""
        return "doubt" in self._fences

    def fence(self, *, is_up: bool, why: Fence = "move") -> None:
        """Let no further request pass on any connection; new clients wait. Once the fence is down again, for all of its
        reasons, everything goes on.
        """
        if is_up:
            self._fences.add(why)
        else:
            self._fences.discard(why)
        if bool(self._fences) == self.is_fenced:
            return
        if is_up:
            self._passes.clear()
        else:
            self._passes.set()
        for passage in list(self.passages):
            passage.fence(is_up=is_up)

    def part_readers(self) -> None:
        """End connections on which a consumer waits for records: it connects and fetches again. Connections that also
        wait for other answers stay.
        """
        for passage in list(self.passages):
            owed = set(passage.owed)
            if owed & {FETCH, SHARE_FETCH} and not owed - CONSUMING:
                passage.part()

    def turn(
        self,
        client: Client,
        places: BrokerPlaces,
        brokers: Mapping[int, tuple[str, int]],
        serving: Serving,
        duties: Duties = NO_DUTIES,
    ) -> None:
        """Serve all ports from another cluster, with its duties. Connected clients get the answers that have come and
        are disconnected; new connections are served from there.
        """
        self.fence(is_up=True)
        for passage in list(self.passages):
            passage.part()
        if self.keeper is not None:
            leaving = asyncio.create_task(self.keeper.aclose())
            self._closing.add(leaving)
            leaving.add_done_callback(self._closing.discard)
        self.keeper = _keeper(duties, client)
        self.client, self._cluster, self.serving = client, client.cluster, serving
        self.places, self.brokers = places, {}
        self._broker_contexts = {}
        self._needs_login = uses_sasl(self._cluster.security)
        self.know(brokers)
        self.fence(is_up=False)

    async def hold_nothing(self) -> None:
        """Close all keepers: no held answer leaves after that."""
        await asyncio.gather(*self._closing, *([] if self.keeper is None else [self.keeper.aclose()]))

    async def drain(self) -> None:
        """Take no more requests, and wait until those taken have been answered, for `drain_s` at most."""
        self._end_listening()
        for passage in list(self.passages):
            passage.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.drain_s):
                await self._emptied.wait()

    def close(self) -> None:
        """End all connections at once."""
        self._end_listening()
        if self.passages:
            _log.info("%s had to be broken off", format_count(len(self.passages), "connection"))
        for passage in list(self.passages):
            passage.abandon()

    def _end_listening(self) -> None:
        self._is_ending = True
        for server in self._servers:
            server.close()

    def know(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        """Take in the brokers that the cluster has now."""
        for node in sorted(brokers.keys() - self.brokers.keys()):
            self._log_broker(node)
        self.brokers = dict(brokers)

    async def watch(self) -> None:
        """End connections that exceed a time limit, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            self.awake(lasting_s())
            for passage in list(self.passages):
                if why := passage.overdue(now):
                    passage.refuse(*why)

    async def follow(self, settings: GatewaySettings, *, every_s: float = _REFRESH_S) -> None:
        """Look for changes of brokers and certificates every `every_s` seconds, until cancelled."""
        read = _read_mtimes(settings.files)
        while True:
            await asyncio.sleep(every_s)
            try:
                if (found := _read_mtimes(settings.files)) != read:
                    # A context that fails to load a chain has lost the one it had.
                    self._context = settings.context()
                    _log.info("new connections get what %s hold now", ", ".join(map(str, settings.files)))
                    read = found
            except ConfigError as error:
                # One of the files may be missing for a moment.
                _log.warning("%s; new connections get the files as they were before", error)
            try:
                metadata = await self.client.metadata()
                if metadata.brokers:
                    self._looked_at = time.monotonic()
                    self.know({node: (broker.host, broker.port) for node, broker in metadata.brokers.items()})
            except ClusterError as error:
                _log.warning("%s", error)
            except Exception:  # noqa: BLE001 - connected clients go on
                _log.exception("the gateway could not look which brokers there are")

    def _log_broker(self, node: int) -> None:
        if self.places.has(node):
            _log.info("broker %d of %s is at %s", node, self._cluster.alias, written_address(*self.places.of(node)))
        else:
            _log.warning(
                "broker %d of %s has no port: the range is that of %s. Its partitions are not reached until all "
                "gateways have been started again with a larger one", node, self._cluster.alias, self.places,
            )  # fmt: skip

    def _move(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Return the address by which clients reach a broker that an answer names; add the broker if it is new."""
        if self.brokers.get(node) != (host, port):
            if node not in self.brokers:
                self._log_broker(node)
            self.brokers[node] = host, port
        return self.places.of(node)

    async def _secure(self, passage: Passage, end: PassageEnd) -> None:
        if self._context is None or end.transport is None:
            return
        loop = asyncio.get_running_loop()
        left = ConnectionResetError("it left during the TLS handshake")
        try:
            transport = await loop.start_tls(
                end.transport, end, self._context, server_side=True, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except ConnectionResetError as error:
            # The original error has no message.
            raise left from error
        if transport is None:
            raise left
        end.switch_to_tls(transport)
        secured = transport.get_extra_info("ssl_object")
        passage.server_name = _names.get(secured, "")
        if certificate := secured.getpeercert(binary_form=True):
            try:
                check_dates(certificate, datetime.now(UTC))
                passage.subject = subject_of(certificate)
            except ValueError as error:
                raise NotAdmitted(Refusal.CERTIFICATE, f"its certificate cannot be read: {error}") from None

    async def _dial_for(self, passage: Passage, end: Callable[[], PassageEnd]) -> bool:
        """Dial once requests pass, for the cluster that is served then; whether the intended broker was reached."""
        await self._passes.wait()
        cluster = choose_login(self._cluster, passage.subject)
        is_certified = passage.subject is not None
        passage.settle(self.serving, self.keeper, needs_login=self._needs_login, is_certified=is_certified)
        node = self.places.node_at(passage.index, passage.server_name)
        passage.node, life_s = await self._dial(cluster, node, end)
        if life_s is not None:
            # Brokers end longer sessions (connections.max.reauth.ms). Not all clients are to reconnect at once.
            passage.finish_after(life_s * random.uniform(*_SESSION_SHARE))
        return node in (None, passage.node)

    async def _dial(
        self, cluster: Cluster, node: int | None, end: Callable[[], PassageEnd]
    ) -> tuple[int, float | None]:
        """Connect an end to this broker, or to any other if it is away or `node` is `None`: metadata of that one leads
        the client on. Return the id of the broker, and for how long (s) a login of ours lasts, if that has an end.
        """
        others = [other for other in self.brokers if other != node]
        random.shuffle(others)
        last: Exception = Unreachable(f"{cluster.alias} has no broker that serves", cluster=cluster.alias)
        for each in others if node is None or node not in self.brokers else [node, *others]:
            host, port = self.brokers.get(each, ("", 0))
            if not host:
                continue
            try:
                async with asyncio.timeout(self._limits.connect_s):
                    life_s = await self._connect(cluster, host, port, end)
            except (OSError, ClusterError) as error:
                if cluster.login and isinstance(error, AuthenticationFailed):
                    # All brokers know the same users.
                    raise NotAdmitted(Refusal.LOGIN, f"login {cluster.login}, by its certificate: {error}") from error
                last = (
                    error
                    if isinstance(error, ClusterError)
                    else build_unreached(error, cluster, whereabouts(cluster, host, port))
                )
                _log.warning("broker %d: %s", each, last)
            else:
                return each, life_s
        raise last

    async def _connect(self, cluster: Cluster, host: str, port: int, end: Callable[[], PassageEnd]) -> float | None:
        """Connect an end to a broker, and log in there if the client does not do that itself."""
        if not (cluster.login and uses_sasl(cluster.security)):
            await self._open(cluster, host, port, end)
            return None
        transport, entrance = await self._open(cluster, host, port, Entrance)
        try:
            aside = partial(asyncio.get_running_loop().run_in_executor, self.dials)
            logged_in = await entrance.log_in(renew_credentials(cluster), host, whereabouts(cluster, host, port), aside)
        except BaseException:
            transport.abort()
            raise
        taken = end()
        transport.set_protocol(taken)
        taken.connection_made(transport)
        return logged_in.session_life_s

    async def _open(
        self, cluster: Cluster, host: str, port: int, protocol: Callable[[], _ProtocolT]
    ) -> tuple[asyncio.Transport, _ProtocolT]:
        """Open a connection to a broker, with TLS where it uses that."""
        loop = asyncio.get_running_loop()
        context = self._context_of_brokers(cluster) if uses_tls(cluster.security) else None
        name = host if context is not None else None
        if cluster.proxy is None:
            return await loop.create_connection(
                protocol, *reached_at(cluster, host, port), ssl=context, server_hostname=name
            )
        reaching = loop.run_in_executor(
            self.dials, reach, renew_credentials(cluster), host, port, self._limits.connect_s
        )
        try:
            sock = await asyncio.shield(reaching)
        except asyncio.CancelledError:
            # The thread goes on, and may still connect.
            reaching.add_done_callback(_close_socket)
            raise
        try:
            sock.setblocking(False)
            return await loop.create_connection(protocol, sock=sock, ssl=context, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    def _context_of_brokers(self, cluster: Cluster) -> ssl.SSLContext:
        """Return the TLS context for brokers; its files are read again every `_CONTEXT_S`, not for each connection."""
        now = time.monotonic()
        read_at, context = self._broker_contexts.get(cluster.login, (-_CONTEXT_S, None))
        if context is None or now - read_at > _CONTEXT_S:
            context = tls_context(renew_credentials(cluster))
            self._broker_contexts[cluster.login] = now, context
        return context


_names: Final = WeakKeyDictionary[ssl.SSLObject, str]()
"""The server names that clients asked for (SNI), by connection."""


def _remember_name(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
    """Remember the server name of a handshake: the shared context does not keep it."""
    if isinstance(connection, ssl.SSLObject):
        _names[connection] = name or ""


def _close_socket(reaching: asyncio.Future[socket.socket]) -> None:
    """Close a connection whose wait was cancelled."""
    if not reaching.cancelled() and reaching.exception() is None:
        reaching.result().close()


def _read_mtimes(files: Collection[Path]) -> tuple[float, ...]:
    """Return when these files were last written; empty if one is missing."""
    try:
        return tuple(file.stat().st_mtime for file in files)
    except OSError:
        return ()
