"""One connection to one broker: requests out, answers in, in order, without blocking the event loop.

Large answers are received directly into a buffer of their size (`recv_into`), large requests are sent from the given
views (`sendmsg`): the bytes of records are not copied here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.connect.dial import Dialled
from isthmus.kafka.connect.frames import Buffer, Frame, decode_response, encode_request, pick_version
from isthmus.kafka.permission import Permission, not_permitted
from isthmus.kafka.trace import trace_answers

_SIZE: Final = struct.Struct(">i")
_SCRATCH_BYTES: Final = 64 * 1024
_FRAME_BYTES_MAX: Final = 512 << 20
_WAKE_BYTES: Final = 256 * 1024
"""The bytes of a large answer that wake us: an event costs more than receiving a small part."""
_IOV_MAX: Final = 512
_RENEW_AT: Final = 0.8

Decode = Callable[[memoryview, int], Any]
Decoder = Callable[[Any, int, memoryview, int], Any]
"""Decodes a frame as the answer to a request of some version and correlation id: see `decode_response`."""


class _Waiting(NamedTuple):
    correlation: int
    answer: asyncio.Future[Any]
    decode: Decode
    posted_at: float
    timeout_s: float
    what: str


class Connection:
    """A connected broker. Made by `Client.dial`; closes itself when the stream breaks.

    `api_versions` maps API keys to the lowest and highest version the broker offers. It `was_refused` if it broke
    before its first answer.
    """

    def __init__(self, dialled: Dialled, *, cluster: str, node_id: int, where: str, client_id: str) -> None:
        self.api_versions: Mapping[int, tuple[int, int]] = dialled.api_versions
        self.cluster = cluster
        self.node_id = node_id
        self.where = where
        life_s = dialled.session_life_s
        self._loop = asyncio.get_running_loop()
        self._renew_at = None if life_s is None else time.monotonic() + life_s * _RENEW_AT
        self._unmuting: asyncio.TimerHandle | None = None
        self._expiry = None if life_s is None else self._loop.call_later(life_s, self._expire)
        self._sock = dialled.sock
        self._tls = type(dialled.sock) is not socket.socket
        self._client_id = client_id
        self._correlation = 0
        self._waiting: deque[_Waiting] = deque()
        self._overdue: asyncio.TimerHandle | None = None
        self._left_at = 0.0
        self._out: deque[Buffer] = deque()
        self._out_bytes = 0
        self._permissions = set[Permission]()
        self._last_permitted = 0
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._filled = 0
        self._large = bytearray()
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._wake_bytes = 1
        self._error: ClusterError | None = None
        self._is_expired = False
        self.was_refused = False
        self._has_answered = False
        self._writing = False
        self._heard_at = time.monotonic()
        self.muted_until = 0.0  # by the monotonic clock: until then the broker does not read it (KIP-219)
        self._loop.add_reader(self._sock, self._on_readable)

    @property
    def closed(self) -> bool:
        return self._error is not None

    @property
    def due_for_renewal(self) -> bool:
        """Whether the login expires soon (KIP-368): open another connection and let this one drain."""
        return self._renew_at is not None and time.monotonic() > self._renew_at

    @property
    def unanswered(self) -> int:
        """The number of requests without an answer."""
        return len(self._waiting)

    @property
    def silent_s(self) -> float:
        """For how many seconds a request waits without a byte from the broker; 0 if none waits."""
        since = max(self._heard_at, self.muted_until)
        return max(time.monotonic() - since, 0.0) if self._waiting else 0.0

    def version_of(self, request: Any) -> int:
        """The version in which `request` would be sent.

        :raises UnsupportedByBroker: The broker offers no version that we know.
        """
        return pick_version(request, self.api_versions, self.cluster)

    async def call(
        self, request: Any, *, timeout_s: float = 10.0, may_send: Permission | None = None, read: Decoder | None = None
    ) -> Any:
        """Send a kafka-python message and wait for its answer.

        A time-out closes the connection, as later answers could not be read. For `may_send` see `post_frame`; `read`
        decodes the answer instead of `decode_response`.

        :raises Unreachable: The connection broke or the answer did not come in `timeout_s`.
        :raises UnsupportedByBroker: The broker offers no version of this message that we know.
        """
        return await self.post(request, timeout_s=timeout_s, may_send=may_send, read=read)

    def post(
        self, request: Any, *, timeout_s: float = 10.0, may_send: Permission | None = None, read: Decoder | None = None
    ) -> asyncio.Future[Any]:
        """Send a message now; the future holds its answer. For time-outs and permission see `post_frame`."""
        version = self.version_of(request)
        frame = encode_request(request, version, self.next_correlation, self._client_id)
        decode = trace_answers(partial(read or decode_response, request, version), self.where, request, version)
        framed = Frame([frame], len(frame))
        return self.post_frame(framed, decode, timeout_s=timeout_s, what=request.name, may_send=may_send)

    def post_frame(
        self, frame: Frame, decode: Decode, *, timeout_s: float, what: str, may_send: Permission | None = None
    ) -> asyncio.Future[Any]:
        """Send a frame encoded with `next_correlation`; `decode(payload, correlation)` decodes its answer.

        The broker may be silent for `timeout_s`, counted from now, from the last bytes sent, or from the last bytes
        received, whichever is latest. After that the connection is closed. A large answer that arrives slowly, and
        answers behind it, may take any time.

        `may_send` is checked before any byte of the request is sent, which may be long after this call. Without
        permission the request fails; if a part of it was sent, or others are queued with it, the connection is reset.

        :raises Unreachable: The connection is closed.
        """
        if self._error is not None:
            raise self._error
        now = time.monotonic()
        if not self._waiting:
            self._heard_at = now
        future: asyncio.Future[Any] = self._loop.create_future()
        if may_send is not None:
            if not may_send():
                future.set_exception(not_permitted(self.cluster, self.where))
                future.exception()
                return future
            self._permissions.add(may_send)
            self._last_permitted = self._correlation + 1
        self._correlation += 1
        self._waiting.append(_Waiting(self._correlation, future, decode, now, timeout_s, what))
        if self._overdue is None or now + timeout_s < self._overdue.when():
            self._watch(timeout_s)
        self._out += frame.buffers
        self._out_bytes += frame.size_bytes
        if not self._writing:
            self._on_writable()
        return future

    def revoke(self) -> None:
        """Permission has lapsed: reset the connection if a request that needed it is unanswered.

        Bytes that have not reached the broker's host yet never will, not even those that the kernel holds.
        """
        if self._waiting and self._waiting[0].correlation <= self._last_permitted:
            self.close(not_permitted(self.cluster, self.where))

    @property
    def next_correlation(self) -> int:
        return self._correlation + 1

    @property
    def client_id(self) -> str:
        return self._client_id

    def _watch(self, after_s: float) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self._loop.call_later(after_s, self._check_overdue)

    def _check_overdue(self) -> None:
        """Close if an answer is overdue, else check again when the next one would be. One timer for all answers."""
        self._overdue = None
        # Fewer bytes than wake us, see `_wake_at`, also prove that the broker is alive.
        self._on_readable()
        if not self._waiting:
            return
        late = min(self._waiting, key=self._due_at)
        left_s = self._due_at(late) - time.monotonic()
        if left_s > 0:
            self._watch(left_s)
            return
        self.close(
            Unreachable(
                f"{self.where} did not answer {late.what} within {late.timeout_s:g} s",
                cluster=self.cluster,
                hint="The broker may be paused, overloaded or cut off; Isthmus tries again.",
            )
        )

    def _due_at(self, owed: _Waiting) -> float:
        return max(owed.posted_at, self._left_at, self._heard_at, self.muted_until) + owed.timeout_s

    def close(self, error: ClusterError | None = None) -> None:
        """Close at once. Unsent bytes are dropped, so no abandoned request can reach the broker later."""
        if self._error is not None:
            return
        self._error = error or Unreachable(f"the connection to {self.where} was closed", cluster=self.cluster)
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        if self._waiting or self._out:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()
        self._out.clear()
        self._frame = None
        for timer in (self._overdue, self._expiry, self._unmuting):
            if timer is not None:
                timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for owed in waiting:
            if not owed.answer.done():
                owed.answer.set_exception(self._error)
                # Consume the error: the caller may have given up waiting.
                owed.answer.exception()

    def _expire(self) -> None:
        """The login has expired: close once the open requests are answered."""
        self._is_expired = True
        if not self._waiting:
            self.close()

    def _close_broken(self, error: Exception) -> None:
        self.was_refused = not self._has_answered
        self.close(
            Unreachable(
                f"{self.where} broke the connection off: {error}",
                cluster=self.cluster,
                hint="The broker may have stopped or moved; Isthmus connects again.",
            )
        )

    def _mute(self, throttle_ms: int) -> None:
        # The broker does not read this connection for so long (KIP-219). Bytes sent now would wait in its host, and
        # take effect even after a reset of the connection. Kept here they can be taken back.
        if self._unmuting is not None:
            self._unmuting.cancel()
        self.muted_until = time.monotonic() + throttle_ms / 1000
        self._unmuting = self._loop.call_later(throttle_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._unmuting = None
        self._on_writable()

    def _on_writable(self) -> None:
        try:
            if self._unmuting is None:
                self._send()
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError, InterruptedError):
            pass
        except OSError as error:
            self._close_broken(error)
        is_writing = bool(self._out) and self._unmuting is None
        if self._error is None and is_writing != self._writing:
            self._writing = is_writing
            if self._writing:
                self._loop.add_writer(self._sock, self._on_writable)
            else:
                self._loop.remove_writer(self._sock)

    def _send(self) -> None:
        out = self._out
        while out:
            for may_send in self._permissions:
                if not may_send():
                    self.close(not_permitted(self.cluster, self.where))
                    return
            if self._tls:
                while not len(out[0]):
                    # Skip empty buffers: sending one would never make progress.
                    out.popleft()
                sent = self._sock.send(out[0])
            else:
                sent = self._sock.sendmsg(out if len(out) <= _IOV_MAX else list(islice(out, _IOV_MAX)))
            self._left_at = time.monotonic()
            self._out_bytes -= sent
            if not self._out_bytes:
                out.clear()
                self._permissions.clear()
                return
            while sent:
                head = out[0]
                if sent >= len(head):
                    sent -= len(head)
                    out.popleft()
                else:
                    out[0] = memoryview(head)[sent:]
                    sent = 0

    def _on_readable(self) -> None:
        try:
            while self._error is None:
                if self._frame is None:
                    n = self._sock.recv_into(self._scratch[self._filled :])
                    self._filled += n
                else:
                    n = self._sock.recv_into(self._frame[self._frame_filled :])
                    self._frame_filled += n
                if n == 0:
                    self._close_broken(ConnectionResetError("closed by the broker"))
                    return
                self._heard_at = time.monotonic()
                self._take_frames()
                if not self._tls:
                    self._wake_at(1 if self._frame is None else len(self._frame) - self._frame_filled)
                    # One read per wake-up keeps connections fair; TLS may hold decrypted bytes the selector cannot see.
                    return
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError):
            return
        except (OSError, ValueError, struct.error) as error:
            self._close_broken(error)

    def _wake_at(self, awaited_bytes: int) -> None:
        """Be woken once so many bytes can be received, or `_WAKE_BYTES`; tcp(7) and socket(7): SO_RCVLOWAT."""
        wake_bytes = min(awaited_bytes, _WAKE_BYTES)
        if wake_bytes != self._wake_bytes and self._error is None:
            self._wake_bytes = wake_bytes
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)

    def _take_frames(self) -> None:
        if self._frame is not None:
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._answer(frame)
            return
        position = 0
        while self._filled - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._scratch, position)
            if not 4 <= size <= _FRAME_BYTES_MAX:
                raise ValueError(f"an answer claims {size} bytes")
            begin = position + _SIZE.size
            if self._filled - begin < size:
                if size > _SCRATCH_BYTES - _SIZE.size:
                    self._frame = self._room_for(size)
                    self._frame_filled = self._filled - begin
                    self._frame[: self._frame_filled] = self._scratch[begin : self._filled]
                    position = self._filled
                break
            # Copy a small answer, as the scratch buffer is used again.
            self._answer(memoryview(bytes(self._scratch[begin : begin + size])))
            if self._error is not None:
                return
            position = begin + size
        if position:
            rest = self._filled - position
            if rest:
                self._scratch[:rest] = bytes(self._scratch[position : self._filled])
            self._filled = rest

    def _room_for(self, size: int) -> memoryview:
        """A buffer for a large answer, which is reused: decoding copies what it keeps, and new memory is slow."""
        if len(self._large) < size:
            self._large = bytearray(size)
        return memoryview(self._large)[:size]

    def _answer(self, payload: memoryview) -> None:
        if not self._waiting:
            raise ValueError("an answer came without a request")
        correlation, future, decode, *_ = self._waiting.popleft()
        self._has_answered = True
        try:
            answer = decode(payload, correlation)
        except Exception as error:
            if not future.done():
                future.set_exception(
                    Unreachable(f"{self.where} sent an answer that cannot be read: {error}", cluster=self.cluster)
                )
                future.exception()
            raise ValueError(f"unreadable answer: {error}") from error
        if throttle_ms := getattr(answer, "throttle_time_ms", 0):
            self._mute(throttle_ms)
        if not future.done():
            future.set_result(answer)
        if self._is_expired and not self._waiting:
            self.close()
