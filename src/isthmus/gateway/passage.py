"""The connection of one client and the one to the broker behind it: pass bytes between them, and end both."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, cast

from isthmus.errors import ClusterError
from isthmus.gateway.bounds import GatewayBounds, GatheringRoom
from isthmus.gateway.certified import NotAdmitted
from isthmus.gateway.conversation import Conversation, NotPassed, Software
from isthmus.gateway.frames.committing import CommitAsked
from isthmus.gateway.frames.duties import NO_DUTIES
from isthmus.gateway.frames.layout import Short
from isthmus.gateway.frames.rewriting import LeadTo
from isthmus.gateway.frames.serving import ANY, Serving
from isthmus.gateway.synchronous.holding import HELD_BYTES_MAX, HELD_MAX, HeldAnswer, HoldingQueue, Leaving
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.connect.frames import Buffer
from isthmus.model.gateways.figures import Refusal
from isthmus.relay.passing import have_reset, keep_alive

_log = logging.getLogger(__name__)
_READ_BYTES: Final = 256 << 10
_PASSING_ONE: Final = -1
_HIGH_BYTES: Final = 256 << 10
"""The bytes that a connection may buffer; beyond that the other side is not read."""
_JOINED_BYTES: Final = 64 << 10
_LOOK_S: Final = 0.01
_BROKEN: Final = select.POLLERR | select.POLLHUP
_LEFT: Final = getattr(select, "POLLRDHUP", 0)
_KEEPS_VIEWS: Final = sys.version_info >= (3, 12)
"""Since Python 3.12 a transport that cannot send at once keeps the buffers it was given, and no copy."""


class Scratch:
    """The read buffer of all connections of an event loop: bytes are passed on before the next read."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ_BYTES))

    def leave(self) -> None:
        """Use a new buffer from now on, as views of this one are kept."""
        self.view = memoryview(bytearray(_READ_BYTES))


class _Owner(Protocol):
    """The owner of two ends, which each call it with their events."""

    def end_connected(self, end: PassageEnd) -> None: ...
    def take(self, end: PassageEnd, chunk: memoryview) -> None: ...
    def fill(self, end: PassageEnd, *, is_full: bool) -> None: ...
    def end_lost(self, end: PassageEnd, error: Exception | None) -> None: ...


class PassageEnd(asyncio.BufferedProtocol):
    """One of the two sockets of a passage."""

    def __init__(self, scratch: Scratch, owner: _Owner) -> None:
        self._scratch = scratch
        self._owner = owner
        self._sock: Any = None
        self._below: asyncio.Transport | None = None
        self._ending: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a new connection, with TLS where it has some."""
        self.transport = self._below = cast("asyncio.Transport", transport)
        # A closed transport no longer has its socket.
        self._sock = transport.get_extra_info("socket")
        keep_alive(self._sock)
        self.transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self._owner.end_connected(self)

    def switch_to_tls(self, transport: asyncio.Transport) -> None:
        """Use the TLS transport from now on."""
        self.transport = transport
        transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self.read(on=False)

    def get_buffer(self, _: int) -> memoryview:
        """Return the buffer to read into."""
        return self._scratch.view

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the bytes that have been read."""
        self._owner.take(self, self._scratch.view[:nbytes])

    def pause_writing(self) -> None:
        """Report that the write buffer is full."""
        self._owner.fill(self, is_full=True)

    def resume_writing(self) -> None:
        """Report that the write buffer has room again."""
        self._owner.fill(self, is_full=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report, once, that the connection is lost."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._ending is not None:
            self._ending.cancel()
        self._owner.end_lost(self, exc)

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Send buffers, unless the connection is closing."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        parts = [buffer for buffer in buffers if buffer]
        is_held = transport.get_write_buffer_size() > 0
        is_copied = (len(parts) > 1 or is_held) and sum(map(len, parts)) <= _JOINED_BYTES
        if is_copied:
            # One call and one packet, where copying costs less; and a small view would keep all of the scratch.
            parts = [b"".join(parts)]
        for part in parts:
            transport.write(part)
        if _KEEPS_VIEWS and not is_copied and transport.get_write_buffer_size():
            self._scratch.leave()

    @property
    def has_sent(self) -> bool:
        """Whether all was sent."""
        return self.transport is None or not self.transport.get_write_buffer_size()

    def read(self, *, on: bool) -> None:
        """Resume or pause reading."""
        if self.transport is not None and not self.transport.is_closing():
            if on:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def close(self, within_s: float) -> None:
        """Close the connection once all has been sent, and reset it after `within_s` at the latest."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._ending = asyncio.get_running_loop().call_later(within_s, self.reset)

    def say_goodbye(self, linger_s: float) -> None:
        """Shut down writing once all has been sent, and reset the connection after `linger_s` if the other side has not
        closed it.

        A socket that is closed before all was read resets the connection, and bytes in flight are lost.
        """
        if self.is_lost or self.transport is None or self._below is None or self.transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        if self.transport.get_write_buffer_size() or self._below.get_write_buffer_size():
            self._ending = loop.call_later(_LOOK_S, self.say_goodbye, linger_s)
            return
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()
        else:
            self._ending = loop.call_later(linger_s, self.reset)

    def looked_after(self) -> int:
        """Return the events of the socket while it is not read, as `select.poll` has them."""
        if self.is_lost or self._sock is None or self._sock.fileno() < 0:
            return 0
        poll = select.poll()
        poll.register(self._sock.fileno(), _LEFT)
        return next((events for _, events in poll.poll(0)), 0)

    def reset(self) -> None:
        """Close the connection at once; unsent bytes are dropped."""
        if self.transport is not None and not self.is_lost:
            have_reset(self._sock)
            self.transport.abort()


Secure = Callable[[PassageEnd], Awaitable[None]]
"""Starts TLS on a client's connection, where that is configured."""
Dial = Callable[[Callable[[], PassageEnd]], Awaitable[bool]]
"""Connects an end to a broker; whether it is the intended one. Raises `OSError` or `ClusterError` if no broker can be
reached, and `NotAdmitted` if the client must not be connected.
"""


class PassageEvents(Protocol):
    """The events of passages."""

    def begin(self, passage: Passage) -> None: ...
    def awake(self, now: float) -> None: ...
    def note_refusal(self, passage: Passage, refusal: Refusal, why: str) -> None: ...
    def end(self, passage: Passage) -> None: ...


class _Share:
    """The share of a room that one direction of a passage has while it gathers a large frame, `since` (monotonic s)."""

    def __init__(self, room: GatheringRoom, hold: Callable[[str], None], let: Callable[[str], None]) -> None:
        self._room = room
        self._hold = hold
        self._let = let
        self._has_asked = False
        self._number = 0
        self.since: float | None = None

    def see_to(self, size: int, number: int, *, is_taken: bool) -> None:
        """Ask for room for a frame of this size that is gathered (0 for none), and pause reading until it is given;
        give it back once the frame is taken. Each frame has another `number`.
        """
        if self.since is not None and is_taken and not (size and number == self._number):
            self.give()
        if size and not self._has_asked:
            self._has_asked, self._number = True, number
            self._hold("room")
            self._room.ask(self, size, self._take)

    def _take(self) -> None:
        self.since = time.monotonic()
        self._let("room")

    def give(self) -> None:
        """Give the room back."""
        self._has_asked, self.since = False, None
        self._room.give(self)


class Passage:
    """The connection of a client, from its acceptance until both ends are gone."""

    def __init__(
        self,
        scratch: Scratch,
        limits: GatewayBounds,
        move: LeadTo,
        events: PassageEvents,
        rooms: Sequence[GatheringRoom],
        *,
        index: int,
        needs_login: bool,
        serving: Serving = ANY,
        keeper: Keeper | None = None,
    ) -> None:
        duties = NO_DUTIES if keeper is None else keeper.duties
        self.conversation, self._requests, self._answers = Conversation.create(limits, move, serving, duties)
        self._keeper = keeper
        self._queue = HoldingQueue()
        self._is_releasing = False
        self._deciding: asyncio.Task[None] | None = None
        self.client = PassageEnd(scratch, self)
        self.address = ""
        self.index = index
        self.node = -1
        """The id of the broker that it is connected to, -1 if there is none yet."""
        self.subject: str | None = None
        """The subject of the client's certificate, if it has one."""
        self.server_name = ""
        """The server name that the client asked for (SNI), if any."""
        self.request_bytes = 0
        self.answer_bytes = 0
        self._broker = PassageEnd(scratch, self)
        self._scratch = scratch
        self._limits = limits
        self._events = events
        self.conversation.needs_login = needs_login
        self._requests_room, self._answers_room = rooms
        self._gathers_request = _Share(self._requests_room, self._hold, self._let)
        self._gathers_answer = _Share(self._answers_room, self._hold_broker, self._let_broker)
        self._since = time.monotonic()
        self._is_dialing = False
        self._full_since: float | None = None
        self._left_since: float | None = None
        self._in_the_way = {"connecting"}
        self._broker_in_the_way = set[str]()
        self._early = bytearray()
        self._opening: asyncio.Task[None] | None = None
        self._finishing: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._is_fenced = False
        self._is_settled = False
        self._is_leaving = False
        self._is_over = False

    @property
    def software(self) -> Software:
        """The name and version of the client's software."""
        return self.conversation.software

    @property
    def requests(self) -> int:
        """The number of requests that the client has sent."""
        return self.conversation.requests

    def open(self, secure: Secure, dial: Dial) -> None:
        """Connect to a broker; bytes of the client wait meanwhile."""
        self._opening = asyncio.create_task(self._open(secure, dial))

    def refuse(self, refusal: Refusal, why: str) -> None:
        """Report why the client is refused, and end the passage at once."""
        self._events.note_refusal(self, refusal, why)
        self.abandon()

    def finish(self) -> None:
        """End it in good order: let the current request pass, and wait for all answers."""
        self._is_ending = True
        self._requests.end()
        self._end_if_done()

    def fence(self, *, is_up: bool) -> None:
        """Let no further request pass while the fence is up; those that came meanwhile pass once it is down again."""
        if not self._is_settled:
            return
        self._is_fenced = is_up
        self._requests.fence(is_up=is_up)
        if is_up:
            self._fence_if_between()
        else:
            self.take(self.client, memoryview(b""))
            self._let("fence")

    def end_halves(self) -> None:
        """End it at once if a part of a request has passed, or is about to, as the rest must not follow."""
        if self._is_settled and not (self._requests.is_between and self._broker.has_sent):
            self.abandon()

    @property
    def owed(self) -> list[int]:
        """The keys of the messages whose answers the client waits for; -1 for one that is passing or whose answer is
        held.
        """
        found = [each.key for each in self.conversation.expected]
        is_between = self._requests.is_between and not self._queue
        return found if is_between else [*found, _PASSING_ONE]

    def settle(self, serving: Serving, keeper: Keeper | None, *, needs_login: bool, is_certified: bool = False) -> None:
        """Set the cluster that is served, the keeper of held answers, and whether we log in for the client."""
        self.conversation.serving, self._is_settled = serving, True
        self.conversation.duties = NO_DUTIES if keeper is None else keeper.duties
        self._keeper = keeper
        self.conversation.is_certified = is_certified
        self.conversation.needs_login = needs_login and not is_certified

    def finish_after(self, life_s: float) -> None:
        """End it in good order after `life_s`, if it is still open."""
        self._finishing = asyncio.get_running_loop().call_later(life_s, self.finish)

    def part(self) -> None:
        """End it although answers may be missing: those that have come reach the client. A passage that is not settled
        yet goes on.
        """
        if self._is_settled and not self._is_leaving:
            self._is_leaving = True
            self._broker.reset()
            self.client.say_goodbye(self._limits.linger_s)
            self.client.read(on=True)

    def overdue(self, now: float) -> tuple[Refusal, str] | None:
        """Return why it is to be ended at this time (monotonic s); `None` if it is not."""
        limits, age_s = self._limits, 0.0 if self._is_dialing else now - self._since

        def is_late(share: _Share) -> bool:
            return share.since is not None and now - share.since > limits.gathering_s

        if not self.conversation.has_spoken and age_s > limits.first_frame_s:
            return Refusal.SILENT, f"it sent no request within {limits.first_frame_s:g} s"
        if self.conversation.needs_login and not self.conversation.has_logged_in and age_s > limits.login_s:
            return Refusal.NO_LOGIN, f"it did not log in within {limits.login_s:g} s"
        if self._full_since is not None and now - self._full_since > limits.stalled_s:
            return Refusal.STALLED, f"it took none of its answers for {limits.stalled_s:g} s"
        if is_late(self._gathers_answer):
            return Refusal.ANSWER, f"the broker did not finish a large answer within {limits.gathering_s:g} s"
        if is_late(self._gathers_request) and self._requests_room.is_wanted:
            return (
                Refusal.REQUEST,
                f"it did not finish a large request within {limits.gathering_s:g} s, and others wait",
            )
        return self._find_departure(now) if self._in_the_way and not self._is_leaving else None

    def _find_departure(self, now: float) -> tuple[Refusal, str] | None:
        """Find out whether a client that is not read from has left; why it is to be ended then."""
        seen = self.client.looked_after()
        if seen & _BROKEN:
            return Refusal.LEFT, "it left before the broker took its requests"
        if not seen & _LEFT:
            return None
        if self._left_since is None:
            self._left_since = now
        if now - self._left_since > self._limits.gone_s:
            return Refusal.LEFT, f"it left, and the broker did not take its requests for {self._limits.gone_s:g} s"
        return None

    async def _open(self, secure: Secure, dial: Dial) -> None:
        refusal = Refusal.HANDSHAKE
        try:
            await secure(self.client)
            self._is_dialing, refusal = True, Refusal.UNREACHED
            self.conversation.is_led_on = not await dial(self._new_broker)
        except (OSError, ClusterError, NotAdmitted) as error:
            self.refuse(error.refusal if isinstance(error, NotAdmitted) else refusal, str(error))
            # asyncio does not report a connection that ended within a TLS handshake.
            self.client.connection_lost(error)
        except Exception:  # noqa: BLE001 - all others go on
            _log.exception("a connection from %s could not be opened", self.address)
            self.abandon()
            self.client.connection_lost(None)
        else:
            # Before this the client could not be read.
            self._is_dialing, self._since = False, time.monotonic()
            self._let("connecting")
            early, self._early = self._early, bytearray()
            self.take(self.client, memoryview(early))

    def _new_broker(self) -> PassageEnd:
        self._broker = PassageEnd(self._scratch, self)
        return self._broker

    def end_connected(self, end: PassageEnd) -> None:
        """Take in an end that is connected."""
        if end is self.client and end.transport is not None:
            peer = end.transport.get_extra_info("peername")
            self.address = str(peer[0]) if peer else "nowhere"
            end.read(on=False)
            self._events.begin(self)
        elif self.client.is_lost:
            end.reset()

    def take(self, end: PassageEnd, chunk: memoryview) -> None:
        """Pass on what an end has read."""
        if self._is_leaving:
            return
        if "connecting" in self._in_the_way:
            # TLS may read a little before reading can be paused.
            self._early += chunk
            return
        self.conversation.now = time.monotonic()
        self._events.awake(lasting_s())
        try:
            if end is self.client:
                self.request_bytes += len(chunk)
                self._broker.write(self._requests.take(chunk))
                self._begin_commit_look()
                self._leave(self._answers.ready())
                self._finish_if_unanswerable()
                if len(self.conversation.expected) >= self._limits.waiting:
                    self._hold("answers")
                self._manage_room()
            else:
                self.answer_bytes += len(chunk)
                self._leave(self._answers.take(chunk))
                self._manage_room()
                if len(self.conversation.expected) <= self._limits.waiting // 2:
                    self._let("answers")
        except NotPassed as error:
            self.refuse(Refusal.REQUEST if end is self.client else Refusal.ANSWER, str(error))
        else:
            self._fence_if_between()
            self._end_if_done()

    def _finish_if_unanswerable(self) -> None:
        """End it as brokers do after refusing a request without an answer (acks=0), once all others are answered."""
        if self.conversation.ends_for and not self._is_ending:
            self._events.note_refusal(self, Refusal.REQUEST, self.conversation.ends_for)
            self.finish()

    def _leave(self, leaving: Sequence[Leaving]) -> None:
        """Send answers to the client, except for held ones and those behind them."""
        if self._keeper is None:
            self.client.write(cast("Sequence[Buffer]", leaving))
            return
        try:
            for each in leaving:
                if isinstance(each, HeldAnswer):
                    self._keeper.keep(each, self)
        except (Short, ValueError) as error:
            raise NotPassed(f"an answer that may be held cannot be read: {error}") from None
        self.client.write(self._queue.take(leaving))
        if len(self._queue) >= HELD_MAX:
            # Pause only the client: without further requests no more answers have to be held.
            self._hold("held")
        if self._queue.waiting_bytes >= HELD_BYTES_MAX:
            self._hold_broker("held")

    def _begin_commit_look(self) -> None:
        """Begin to find out what a commit has to wait for, before it is forwarded."""
        asked = self._requests.asks
        if asked is not None and self._deciding is None and self._keeper is not None:
            self._hold("commit")
            self._deciding = asyncio.create_task(self._decide(self._keeper, asked))

    async def _decide(self, keeper: Keeper, asked: CommitAsked) -> None:
        try:
            decided = await keeper.look_at(asked._replace(node=self.node))
        except Exception:  # noqa: BLE001 - all others go on
            _log.exception("a transaction could not be looked at")
            self.refuse(Refusal.UNREACHED, "it is not known what its transaction has written")
            return
        self._deciding = None
        if self.client.looked_after() & (_BROKEN | _LEFT):
            # A client that gave up retries elsewhere, and may be in its next transaction.
            self.refuse(Refusal.LEFT, "it left before its commit was forwarded")
            return
        self._requests.decide(asked, decided)
        self._let("commit")
        self.take(self.client, memoryview(b""))

    def release(self) -> None:
        """Send the held answers that may leave, in the next cycle of the event loop."""
        if not self._is_releasing:
            self._is_releasing = True
            asyncio.get_running_loop().call_soon(self._release)

    def _release(self) -> None:
        self._is_releasing = False
        self.client.write(self._queue.ready())
        if len(self._queue) <= HELD_MAX // 2:
            self._let("held")
        if self._queue.waiting_bytes <= HELD_BYTES_MAX // 2:
            self._let_broker("held")
        self._end_if_done()

    def fill(self, end: PassageEnd, *, is_full: bool) -> None:
        """Pause or resume reading of the other end, as the write buffer of an end is full or has room again."""
        if end is self.client:
            self._full_since = time.monotonic() if is_full else None
            if is_full:
                self._hold_broker("client")
            else:
                self._manage_room()
                self._let_broker("client")
        elif is_full:
            self._hold("broker")
        else:
            self._let("broker")
            self._manage_room()

    def _manage_room(self) -> None:
        """Ask for room for frames that are gathered, and give it back once the other side takes them."""
        answers, requests = self._answers, self.conversation.requests
        self._gathers_answer.see_to(answers.gathered_bytes, answers.begun, is_taken=self._full_since is None)
        is_taken = "broker" not in self._in_the_way
        self._gathers_request.see_to(self._requests.gathered_bytes, requests, is_taken=is_taken)

    def end_lost(self, end: PassageEnd, error: Exception | None) -> None:
        """Close the other end of an end that is lost: after its unsent bytes, or at once if there was an error."""
        if end is self.client and self._opening is not None:
            self._opening.cancel()
        other = self._broker if end is self.client else self.client
        if end is self._broker and self._is_leaving:
            pass  # The client has all its answers, and is about to leave.
        elif error is None:
            other.close(self._limits.gone_s)
        else:
            other.reset()
        if (other.is_lost or other.transport is None) and not self._is_over:
            self._is_over = True
            self.conversation.forget()
            self._gathers_request.give()
            self._gathers_answer.give()
            if self._deciding is not None:
                self._deciding.cancel()
            if self._finishing is not None:
                self._finishing.cancel()
            if self._keeper is not None:
                self._keeper.leave(self)
            self._events.end(self)

    def _hold_broker(self, reason: str) -> None:
        self._broker_in_the_way.add(reason)
        self._broker.read(on=False)

    def _let_broker(self, reason: str) -> None:
        if reason in self._broker_in_the_way:
            self._broker_in_the_way.discard(reason)
            self._broker.read(on=not self._broker_in_the_way)

    def _hold(self, reason: str) -> None:
        self._in_the_way.add(reason)
        self.client.read(on=self._is_leaving)

    def _let(self, reason: str) -> None:
        if reason in self._in_the_way:
            self._in_the_way.discard(reason)
            self.client.read(on=self._is_leaving or not self._in_the_way)

    def _fence_if_between(self) -> None:
        if self._is_fenced and self._requests.is_between:
            self._hold("fence")

    def _end_if_done(self) -> None:
        if self._is_ending and self._requests.is_between:
            self._hold("ending")
            is_answered = not self.conversation.expected and self._answers.is_between and not self._queue
            if is_answered and not self._is_leaving:
                self._is_leaving = True
                self._broker.close(self._limits.gone_s)
                self.client.say_goodbye(self._limits.linger_s)
                # Bytes that the client still sends are read and dropped.
                self.client.read(on=True)

    def abandon(self) -> None:
        """Reset both ends at once."""
        self.client.reset()
        self._broker.reset()
