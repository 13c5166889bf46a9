"""The agent: it runs where a cluster's brokers can be reached, connects to a relay, and brings it connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from isthmus.errors import AuthenticationFailed, ClusterError, PlanRefused, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.connect.address import split_address, written_address
from isthmus.kafka.connect.certificates import context_of
from isthmus.kafka.connect.credentials import renew_credentials
from isthmus.kafka.connect.reach import reach
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster, Tls
from isthmus.relay.passing import Stream, pass_between
from isthmus.relay.speech import (
    BUFFER_BYTES,
    HEARTBEAT_S,
    OPENING_S,
    Head,
    NotUnderstood,
    Tokens,
    line,
    read_line,
    read_status,
)

_log = logging.getLogger(__name__)
_AGAIN_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_TOKEN_REFUSED: Final = 407


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """The relay (`host:port`) to join, the side to join as, the authority of its certificate, and the token."""

    relay: str
    side: str
    token: Tokens
    tls: Tls


async def broker_addresses(client: Client) -> frozenset[str]:
    """Return the addresses of a cluster's brokers as links know them: those they advertise, and the bootstrap servers.

    :raises ClusterError: The cluster does not answer.
    """
    brokers = (await client.metadata()).brokers.values()
    advertised = (written_address(broker.host, broker.port) for broker in brokers)
    return frozenset(address.lower() for address in (*client.cluster.bootstrap_servers, *advertised))


async def reached_brokers(cluster: Cluster) -> tuple[str, ...]:
    """Return the addresses that a link would reach if an agent joined here, in order.

    :raises ClusterError: The cluster does not answer.
    """
    async with ClientSession() as session:
        return tuple(sorted(await broker_addresses(session.client(cluster))))


async def join(cluster: Cluster, settings: JoinSettings) -> None:
    """Join a relay as the side of this cluster until cancelled; a relay or cluster that is away is tried again.

    :raises AuthenticationFailed: The relay refuses token or certificate, and has not taken them before.
    :raises PlanRefused: The cluster itself is reached through a relay.
    """
    if cluster.proxy is not None and cluster.proxy.kind == "relay":
        raise PlanRefused(
            f"{cluster.alias} is reached through the relay {cluster.proxy} itself",
            hint="Join where its brokers can be reached, with a configuration that has no such proxy, or by "
            f"isthmus -b {cluster.alias}=host:port relay join {cluster.alias}.",
        )
    async with ClientSession() as session:
        await _Agent(session.client(cluster), settings).run()


class _Agent:
    def __init__(self, client: Client, settings: JoinSettings) -> None:
        self._client = client
        self._cluster = client.cluster
        self._settings = settings
        self._address = split_address(settings.relay, self._cluster.alias)
        self._brokers: frozenset[str] = frozenset()
        self._has_joined = False
        self._failures = 0
        self._bringing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Join again whenever the relay was lost, and follow the brokers of the cluster meanwhile."""
        self._brokers = await self._look()
        following = asyncio.create_task(self._follow())
        try:
            while True:
                await self._try()
                await asyncio.sleep(_AGAIN_S[min(self._failures, len(_AGAIN_S) - 1)])
        finally:
            following.cancel()

    async def _try(self) -> None:
        self._failures += 1
        try:
            await self._session()
        except AuthenticationFailed as error:
            if not self._has_joined:
                raise
            _log.error("%s", error)
        except (ClusterError, OSError, NotUnderstood) as error:
            _log.warning("the relay %s is away: %s", self._settings.relay, error)

    async def _session(self) -> None:
        """Run from joining until the relay is lost. Connections that were brought live on."""
        async with self._dial(Head("JOIN", "", self._settings.side, self._settings.token.first)) as relay:
            status, reason = await read_status(relay.reader)
            if status == _TOKEN_REFUSED:
                raise AuthenticationFailed(
                    f"the relay {self._settings.relay} refused the token",
                    cluster=self._cluster.alias,
                    hint="--token has to name a file with the relay's token.",
                )
            if status != 200:
                raise Unreachable(f"the relay {self._settings.relay} says: {reason}", cluster=self._cluster.alias)
            self._has_joined, self._failures = True, 0
            _log.info(
                "joined %s as %s: %s", self._settings.relay, self._settings.side, ", ".join(sorted(self._brokers))
            )
            telling = asyncio.create_task(self._tell(relay))
            try:
                while not telling.done():
                    self._hear(relay, await read_line(relay.reader))
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)

    async def _look(self) -> frozenset[str]:
        """Return the present brokers, or the last known ones: the relay can be joined while the cluster is away."""
        try:
            return await broker_addresses(self._client)
        except ClusterError as error:
            _log.warning("%s", error)
            return self._brokers or frozenset(map(str.lower, self._cluster.bootstrap_servers))

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._brokers = await self._look()

    async def _tell(self, relay: Stream) -> None:
        while True:
            relay.writer.write(line(brokers=sorted(self._brokers)))
            await relay.writer.drain()
            await asyncio.sleep(HEARTBEAT_S)

    def _hear(self, relay: Stream, message: dict[str, object]) -> None:
        match message:
            case {"open": str(ticket), "broker": str(broker)}:
                task = asyncio.create_task(self._bring(relay, ticket, broker))
                self._bringing.add(task)
                task.add_done_callback(self._bringing.discard)

    async def _bring(self, relay: Stream, ticket: str, broker: str) -> None:
        """Connect the broker with the client that waits for it at the relay."""
        try:
            near = await self._connect_to_broker(broker)
        except (OSError, ClusterError, PlanRefused) as error:
            _log.warning("%s is asked for, and cannot be reached: %s", broker, error)
            relay.writer.write(line(failed=ticket, reason=str(error)))
            return
        try:
            head = Head("ACCEPT", ticket, self._settings.side, self._settings.token.first)
            async with self._dial(head) as far:
                await pass_between(near, far)
        except (OSError, ClusterError) as error:
            _log.debug("the connection to %s ended: %s", broker, error)
        finally:
            near.reset()

    async def _connect_to_broker(self, broker: str) -> Stream:
        # A malicious relay can reach these and nothing else.
        if broker not in self._brokers:
            raise PlanRefused(f"{broker} is no broker of {self._cluster.alias}")
        host, port = split_address(broker, self._cluster.alias)
        sock = await asyncio.to_thread(reach, renew_credentials(self._cluster), host, port, OPENING_S / 2)
        if sock.getsockname() == sock.getpeername():
            sock.close()
            raise ConnectionRefusedError("the port connects to itself")
        sock.setblocking(False)
        stream = Stream(*await asyncio.open_connection(sock=sock, limit=BUFFER_BYTES))
        stream.prepare()
        return stream

    @contextlib.asynccontextmanager
    async def _dial(self, head: Head) -> AsyncIterator[Stream]:
        """Open a connection to the relay with this head; it ends with the block."""
        # Reading the system's certificate authorities takes tens of milliseconds: other connections must not wait for
        # it.
        context = await asyncio.to_thread(context_of, self._settings.tls, self._cluster.alias, "relay")
        host, port = self._address
        try:
            async with asyncio.timeout(OPENING_S):
                dialling = asyncio.open_connection(host, port, ssl=context, server_hostname=host, limit=BUFFER_BYTES)
                stream = Stream(*await dialling)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"the relay {self._settings.relay} shows a certificate that is not trusted: {error.verify_message}",
                cluster=self._cluster.alias,
                hint="Give --tls-ca the authority that signed it, and the relay by a name that is in it.",
            ) from error
        try:
            stream.prepare()
            stream.writer.write(head.encode())
            yield stream
        finally:
            stream.reset()
