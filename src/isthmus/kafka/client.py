"""A client of one cluster: its metadata, and requests to the brokers that have to answer them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, Protocol, Self, TypeVar, cast

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from isthmus.errors import AnotherCluster, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.connect.address import split_address, whereabouts
from isthmus.kafka.connect.connection import Connection, Decoder
from isthmus.kafka.connect.diagnosis import another_cluster, missing_login
from isthmus.kafka.connect.dial import Dialled, dial
from isthmus.kafka.connect.security import uses_sasl
from isthmus.kafka.metadata import Broker, Metadata, read_metadata
from isthmus.kafka.permission import Permission
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_group, on_transactional_id

BOOTSTRAP_NODE: Final = -1
_COORDINATOR_RETRIES: Final = 40
SILENCE_S: Final = 2.0
"""A broker that owes an answer for longer may be frozen or cut off: others are asked first."""
_PATIENCE_S: Final = 4.0
HEDGE_S: Final = 1.0
"""A broker that does not answer a question within it may be gone: the next one is asked beside it."""
_RETRY_S: Final = 0.1
_DIALLING_AT_ONCE: Final = 8


class ClientCompanion(Protocol):
    """An object that is kept beside a client and closed with it, such as a cache."""

    def close(self) -> None: ...


CompanionT = TypeVar("CompanionT", bound=ClientCompanion)


class Client:
    """Speaks to one Kafka cluster. Use it in one event loop; close it with `aclose` or `async with`.

    It accepts one cluster id: the configured one, or else that of the first answer. Brokers that belong to another
    cluster count as unreachable (AnotherCluster), and get no other request.
    """

    def __init__(self, cluster: Cluster, *, client_id: str = "") -> None:
        self.cluster = cluster
        self._client_id = client_id or cluster.client_id
        self._brokers: Mapping[int, Broker] = {}
        self._controller_id = -1
        self._shared: dict[int, Connection] = {}
        # Replaced by newer connections, as their login expires soon; callers that hold them still use them.
        self._draining: list[Connection] = []
        self._dialling: dict[int, asyncio.Task[Connection]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._companions: dict[Any, ClientCompanion] = {}
        self._closed = False
        self._threads = ThreadPoolExecutor(_DIALLING_AT_ONCE, thread_name_prefix=f"dial-{cluster.alias}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the shared connections. Those from `dial` belong to their callers."""
        self._closed = True
        for kind in list(self._companions):
            self.dismiss(kind)
        for task in self._dialling.values():
            task.cancel()
        for connection in (*self._shared.values(), *self._draining):
            connection.close()
        self._shared.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def companion(self, kind: Callable[[Client], CompanionT]) -> CompanionT:
        """Return the companion of this kind, created if there is none, and closed with the client."""
        if kind not in self._companions:
            self._companions[kind] = kind(self)
        return cast(CompanionT, self._companions[kind])

    def dismiss(self, kind: Callable[[Client], ClientCompanion]) -> None:
        """Close the companion of this kind, if there is one."""
        companion = self._companions.pop(kind, None)
        if companion is not None:
            companion.close()

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        """Ask a broker, or `node_id`, for brokers, controller and topics. `None` asks for all topics, `()` for none.

        Asking never creates topics. A topic that does not exist is included with its error code.

        :raises Unreachable: No broker answered, or `node_id` did not.
        :raises AnotherCluster: A broker of another cluster answered.
        """
        names = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(
            topics=names,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            min_version=4,
        )
        asked = partial(self.any, hedge_s=HEDGE_S) if node_id is None else partial(self.broker, node_id)
        answer: Metadata = (await asked(request, read=read_metadata)).metadata
        self.recognize(answer.cluster_id)
        if answer.brokers:
            self._brokers = answer.brokers
            self._controller_id = answer.controller_id
        return answer

    def recognize(self, cluster_id: str | None) -> None:
        """Compare the cluster id of an answer with the known one; the first id becomes the known one.

        :raises AnotherCluster: The id is another one.
        """
        known = self.cluster.cluster_id
        if cluster_id and not known:
            self.cluster = replace(self.cluster, cluster_id=cluster_id)
        elif cluster_id and cluster_id != known:
            raise another_cluster(self.cluster.alias, self.cluster.alias, meant=known, found=cluster_id)

    async def any(
        self, request: Any, *, timeout_s: float = 10.0, hedge_s: float | None = None, read: Decoder | None = None
    ) -> Any:
        """Ask any broker that answers: the known ones first, then the bootstrap servers. `read`: see `Connection.call`.

        If a broker does not answer within `hedge_s`, the next one is asked beside it, as it may be frozen; without
        `hedge_s` brokers are asked one after the other.

        :raises Unreachable: No broker answered; the message has the last reason.
        """
        nodes = list(self._brokers)
        random.shuffle(nodes)
        nodes.sort(key=self._ask_order)
        bootstrap = [BOOTSTRAP_NODE - index for index in range(len(self.cluster.bootstrap_servers))]
        waiting: set[asyncio.Task[Any]] = set()
        last: ClusterError | None = None
        try:
            for node in [*nodes, *bootstrap]:
                # Another broker may answer at once, so only bootstrap servers get the full time.
                patience_s = timeout_s if node <= BOOTSTRAP_NODE else min(timeout_s, _PATIENCE_S)
                asking = asyncio.create_task(self.broker(node, request, timeout_s=patience_s, read=read))
                # Consume its error: another broker may have answered, or the caller gone, before it fails.
                asking.add_done_callback(lambda done: done.cancelled() or done.exception())
                waiting.add(asking)
                done, waiting = await asyncio.wait(waiting, timeout=hedge_s, return_when=asyncio.FIRST_COMPLETED)
                answer, last = _take_first(done, last)
                if answer is not None:
                    return answer
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                answer, last = _take_first(done, last)
                if answer is not None:
                    return answer
        finally:
            for asking in waiting:
                asking.cancel()
        raise last or Unreachable(f"{self.cluster.alias} has no bootstrap servers", cluster=self.cluster.alias)

    def _ask_order(self, node_id: int) -> int:
        """The order in which brokers are asked: connected ones first, those that already owe an answer last."""
        held = self._shared.get(node_id)
        if held is None or held.closed:
            return 1
        return 2 if held.silent_s > SILENCE_S else 0

    async def broker(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_s: float = 10.0,
        may_send: Permission | None = None,
        read: Decoder | None = None,
    ) -> Any:
        """Ask one broker over the shared connection. For `may_send` see `Connection.post_frame`, for `read` its `call`.

        :raises Unreachable: The broker does not answer.
        :raises AuthenticationFailed: TLS or SASL refused us, or a login is required and we have none.
        """
        connection = await self.connection(node_id)
        try:
            return await connection.call(request, timeout_s=timeout_s, may_send=may_send, read=read)
        except Unreachable:
            if connection.was_refused and not uses_sasl(self.cluster.security):
                await self._require_no_login(node_id)
            raise

    @property
    def muted_until(self) -> float:
        """The time (monotonic) until which some broker does not read a shared connection (KIP-219)."""
        return max((connection.muted_until for connection in self._shared.values()), default=0.0)

    def revoke(self) -> None:
        """Permission has lapsed: reset the shared connections with unanswered requests that needed it."""
        for connection in list(self._shared.values()):
            connection.revoke()

    async def _require_no_login(self, node_id: int) -> None:
        """Raise an error if the listener requires a login: it answers ApiVersions, and closes at the first request."""
        host, port = await self._address(node_id)
        asking = self._dialling_threads().submit(missing_login, self.cluster, host, port)
        if error := await asyncio.wrap_future(asking):
            raise error

    async def controller(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        """Ask the controller (in KRaft any broker forwards to it)."""
        if self._controller_id not in self._brokers:
            await self.metadata()
        try:
            return await self.broker(self._controller_id, request, timeout_s=timeout_s)
        except Unreachable:
            await self.metadata()
            return await self.broker(self._controller_id, request, timeout_s=timeout_s)

    async def coordinator(
        self,
        kind: Literal["group", "transaction"],
        key: str,
        request: Any,
        *,
        timeout_s: float = 10.0,
        may_send: Permission | None = None,
    ) -> Any:
        """Ask the coordinator of a group or a transactional id. The caller handles error codes in the answer.

        :raises ClusterError: No coordinator could be found.
        """
        node = await self.find_coordinator(kind, key)
        try:
            return await self.broker(node, request, timeout_s=timeout_s, may_send=may_send)
        except Unreachable:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: Literal["group", "transaction"], key: str) -> None:
        """Forget the coordinator, which moved or broke: the next request finds it again."""
        self._coordinators.pop((int(kind == "transaction"), key), None)

    async def find_coordinator(self, kind: Literal["group", "transaction"], key: str) -> int:
        """Find the node that coordinates a group or a transactional id; the result is cached."""
        key_type = int(kind == "transaction")
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self._brokers:
            return known
        code = codes.COORDINATOR_NOT_AVAILABLE
        for _ in range(_COORDINATOR_RETRIES):
            answer = await self.any(FindCoordinatorRequest(key=key, key_type=key_type, max_version=3))
            code = answer.error_code
            if code == codes.NONE:
                if answer.node_id not in self._brokers:
                    await self.metadata()
                self._coordinators[(key_type, key)] = answer.node_id
                return int(answer.node_id)
            if code not in (codes.COORDINATOR_NOT_AVAILABLE, codes.COORDINATOR_LOAD_IN_PROGRESS):
                break
            await asyncio.sleep(_RETRY_S)
        right = on_transactional_id("DESCRIBE", key) if kind == "transaction" else on_group("DESCRIBE", key)
        raise codes.error_for(code, f"finding the coordinator of {kind} {key}", right, cluster=self.cluster.alias)

    async def connection(self, node_id: int) -> Connection:
        """Return the shared connection to a broker, opened if needed. Several callers wait for one handshake.

        :raises Unreachable: The broker is unknown or does not answer.
        """
        held = self._shared.get(node_id)
        if held is not None and not held.closed and not held.due_for_renewal:
            return held
        task = self._dialling.get(node_id)
        if task is None:
            task = asyncio.create_task(self.dial(node_id))
            self._dialling[node_id] = task
            task.add_done_callback(lambda done: self._keep(node_id, done))
        return await asyncio.shield(task)

    def _keep(self, node_id: int, done: asyncio.Task[Connection]) -> None:
        self._dialling.pop(node_id, None)
        if done.cancelled() or done.exception() is not None:
            return
        if self._closed:
            done.result().close()
        else:
            former = self._shared.get(node_id)
            self._draining = [each for each in (*self._draining, former) if each is not None and not each.closed]
            self._shared[node_id] = done.result()

    async def dial(self, node_id: int) -> Connection:
        """Open a connection for the caller alone, for requests that would delay others (fetch, produce).

        :raises Unreachable: The broker is unknown or does not answer.
        :raises AnotherCluster: A broker of another cluster has its address.
        :raises AuthenticationFailed: TLS or SASL refused us.
        """
        host, port = await self._address(node_id)
        dialling = self._dialling_threads().submit(dial, self.cluster, host, port, self._client_id, node_id=node_id)
        try:
            dialled = await asyncio.wrap_future(dialling)
        except asyncio.CancelledError:
            # The thread cannot be interrupted: close its connection when it is done.
            dialling.add_done_callback(_hang_up)
            raise
        return Connection(
            dialled,
            cluster=self.cluster.alias,
            node_id=node_id,
            where=whereabouts(self.cluster, host, port),
            client_id=self._client_id,
        )

    def _dialling_threads(self) -> ThreadPoolExecutor:
        """The threads that dial.

        :raises Unreachable: The client is closed. A task that asks one broker after the other may still run then.
        """
        if self._closed:
            raise Unreachable(f"the client of {self.cluster.alias} is closed", cluster=self.cluster.alias)
        return self._threads

    async def _address(self, node_id: int) -> tuple[str, int]:
        if node_id <= BOOTSTRAP_NODE:
            return split_address(self.cluster.bootstrap_servers[BOOTSTRAP_NODE - node_id], self.cluster.alias)
        if node_id not in self._brokers:
            await self.metadata()
        broker = self._brokers.get(node_id)
        if broker is None:
            raise Unreachable(
                f"{self.cluster.alias} has no broker {node_id}",
                cluster=self.cluster.alias,
                hint="The broker may have left the cluster; Isthmus asks for its successor.",
            )
        return broker.host, broker.port


def _choose_error(before: ClusterError | None, error: ClusterError) -> ClusterError:
    """Choose the more helpful of two errors: that another cluster answers explains why no broker does."""
    return before if isinstance(before, AnotherCluster) else error


def _take_first(done: Collection[asyncio.Task[Any]], last: ClusterError | None) -> tuple[Any, ClusterError | None]:
    """Return an answer, or `None`; and the last error."""
    for asked in done:
        error = asked.exception()
        if error is None:
            return asked.result(), last
        if not isinstance(error, Unreachable):
            raise error
        last = _choose_error(last, error)
    return None, last


def _hang_up(dialling: Future[Dialled]) -> None:
    if not dialling.cancelled() and dialling.exception() is None:
        dialling.result().sock.close()
