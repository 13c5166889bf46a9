"""One client's connection and the broker's behind it: bytes from one into the other, and how both end."""

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
from isthmus.gateway.committing import CommitAsked
from isthmus.gateway.conversation import Conversation, NotPassed, Software
from isthmus.gateway.duties import NO_DUTIES
from isthmus.gateway.holding import HELD_BYTES_MAX, HELD_MAX, HeldAnswer, HoldingQueue, Leaving
from isthmus.gateway.keeping import Keeper
from isthmus.gateway.layout import Short
from isthmus.gateway.rewriting import LeadTo
from isthmus.gateway.serving import ANY, Serving
from isthmus.model.gatewayfigures import Refusal
from isthmus.relay.passing import have_reset, keep_alive
from isthmus.wire.clock import lasting_s
from isthmus.wire.frames import Buffer

_log = logging.getLogger(__name__)
_READ_BYTES: Final = 256 << 10
_PASSING_ONE: Final = -1
_HIGH_BYTES: Final = 256 << 10
"""What a connection may hold back; who sends more is not read from."""
_JOINED_BYTES: Final = 64 << 10
_LOOK_S: Final = 0.01
_BROKEN: Final = select.POLLERR | select.POLLHUP
_LEFT: Final = getattr(select, "POLLRDHUP", 0)
_KEEPS_VIEWS: Final = sys.version_info >= (3, 12)
"""From then on a transport that cannot send at once keeps what it was given, and no copy."""


class Scratch:
    """Where all connections of an event loop read into: what has been read is passed on before the next read."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ_BYTES))

    def leave(self) -> None:
        """Somebody keeps views of it: read into another one from now on."""
        self.view = memoryview(bytearray(_READ_BYTES))


class _Owner(Protocol):
    """Who has two ends, and is told by each what happens to it."""

    def made(self, end: PassageEnd) -> None: ...
    def take(self, end: PassageEnd, chunk: memoryview) -> None: ...
    def fill(self, end: PassageEnd, *, is_full: bool) -> None: ...
    def lost(self, end: PassageEnd, error: Exception | None) -> None: ...


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
        """There is a connection, with TLS where it has some."""
        self.transport = self._below = cast("asyncio.Transport", transport)
        # A transport that was closed knows it no more.
        self._sock = transport.get_extra_info("socket")
        keep_alive(self._sock)
        self.transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self._owner.made(self)

    def secured(self, transport: asyncio.Transport) -> None:
        """The connection has TLS from now on."""
        self.transport = transport
        transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self.read(on=False)

    def get_buffer(self, _: int) -> memoryview:
        """Where to read into."""
        return self._scratch.view

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have been read."""
        self._owner.take(self, self._scratch.view[:nbytes])

    def pause_writing(self) -> None:
        """It holds back as much as it may."""
        self._owner.fill(self, is_full=True)

    def resume_writing(self) -> None:
        """It takes more again."""
        self._owner.fill(self, is_full=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self.is_lost:
            return
        self.is_lost = True
        if self._ending is not None:
            self._ending.cancel()
        self._owner.lost(self, exc)

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Send these, or as much of them as it still can."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        parts = [buffer for buffer in buffers if buffer]
        is_held = transport.get_write_buffer_size() > 0
        is_copied = (len(parts) > 1 or is_held) and sum(map(len, parts)) <= _JOINED_BYTES
        if is_copied:
            # One call and one packet, where copying costs less; and a small view would hold all of the scratch.
            parts = [b"".join(parts)]
        for part in parts:
            transport.write(part)
        if _KEEPS_VIEWS and not is_copied and transport.get_write_buffer_size():
            self._scratch.leave()

    @property
    def has_sent(self) -> bool:
        """Whether nothing is left of what it was to send."""
        return self.transport is None or not self.transport.get_write_buffer_size()

    def read(self, *, on: bool) -> None:
        """Whether to read from it."""
        if self.transport is not None and not self.transport.is_closing():
            if on:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def close(self, within_s: float) -> None:
        """Close it when all has been sent, after so many seconds at the latest."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._ending = asyncio.get_running_loop().call_later(within_s, self.reset)

    def say_goodbye(self, linger_s: float) -> None:
        """Send nothing behind what is to be sent, and close it when the other side has, or so much later.

        A socket that is closed before all was read resets the connection, and what is on its way is lost.
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
        """What has become of it while nobody reads from it, as `select.poll` tells it."""
        if self.is_lost or self._sock is None or self._sock.fileno() < 0:
            return 0
        poll = select.poll()
        poll.register(self._sock.fileno(), _LEFT)
        return next((events for _, events in poll.poll(0)), 0)

    def reset(self) -> None:
        """Close it at once; what it has not sent yet never will be."""
        if self.transport is not None and not self.is_lost:
            have_reset(self._sock)
            self.transport.abort()


Secure = Callable[[PassageEnd], Awaitable[None]]
"""Has a client's connection speak TLS, where that is asked for."""
Dial = Callable[[Callable[[], PassageEnd]], Awaitable[bool]]
"""Connects an end to a broker; whether it is the one that is meant. Raises `OSError` or `ClusterError` where none can
be reached, and `NotAdmitted` where none is to be.
"""


class PassageEvents(Protocol):
    """What becomes of passages."""

    def begin(self, passage: Passage) -> None: ...
    def awake(self, now: float) -> None: ...
    def refused(self, passage: Passage, refusal: Refusal, why: str) -> None: ...
    def end(self, passage: Passage) -> None: ...


class _Share:
    """What one way of a passage has of a room while it gathers something large, and since when (monotonic s)."""

    def __init__(self, room: GatheringRoom, hold: Callable[[str], None], let: Callable[[str], None]) -> None:
        self._room = room
        self._hold = hold
        self._let = let
        self._has_asked = False
        self._number = 0
        self.since: float | None = None

    def see_to(self, size: int, number: int, *, is_taken: bool) -> None:
        """Read on once there is room for what is gathered, and give it back once that is taken; 0 is nothing. The
        `number` of what is gathered is another one for what stands behind it.
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
        """It needs none any more."""
        self._has_asked, self.since = False, None
        self._room.give(self)


class Passage:
    """A client's connection from when it was accepted until both ends are gone."""

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
        self.conversation, self._requests, self._answers = Conversation.begun(limits, move, serving, duties)
        self._keeper = keeper
        self._queue = HoldingQueue()
        self._is_releasing = False
        self._deciding: asyncio.Task[None] | None = None
        self.client = PassageEnd(scratch, self)
        self.address = ""
        self.index = index
        self.node = -1
        """The broker that it is connected to, -1 as long as there is none."""
        self.subject: str | None = None
        """That of the client's certificate, where it has one."""
        self.server_name = ""
        """What the client called us, where it said so."""
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
        """What the client says that it is."""
        return self.conversation.software

    @property
    def requests(self) -> int:
        """How many requests it has sent."""
        return self.conversation.requests

    def open(self, secure: Secure, dial: Dial) -> None:
        """Connect it to a broker; what the client sends waits meanwhile."""
        self._opening = asyncio.create_task(self._open(secure, dial))

    def refuse(self, refusal: Refusal, why: str) -> None:
        """End it at once, and say why."""
        self._events.refused(self, refusal, why)
        self.abandon()

    def finish(self) -> None:
        """End it in good order: the request that is passing passes, and all answers come."""
        self._is_ending = True
        self._requests.end()
        self._end_if_done()

    def fence(self, *, is_up: bool) -> None:
        """Have no request pass that has not begun to; with the fence down again those pass that came meanwhile."""
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
        """End it at once if a part of a request has passed, or is about to, and the rest is not to follow."""
        if self._is_settled and not (self._requests.is_between and self._broker.has_sent):
            self.abandon()

    @property
    def owed(self) -> list[int]:
        """The messages that the client waits for an answer to, by key; -1 for one that is passing or whose answer is
        held.
        """
        found = [each.key for each in self.conversation.expected]
        is_between = self._requests.is_between and not self._queue
        return found if is_between else [*found, _PASSING_ONE]

    def settle(self, serving: Serving, keeper: Keeper | None, *, needs_login: bool, is_certified: bool = False) -> None:
        """Which cluster it is for is known, what is held there, and whether we log in there for the client."""
        self.conversation.serving, self._is_settled = serving, True
        self.conversation.duties = NO_DUTIES if keeper is None else keeper.duties
        self._keeper = keeper
        self.conversation.is_certified = is_certified
        self.conversation.needs_login = needs_login and not is_certified

    def finish_after(self, life_s: float) -> None:
        """End it in good order after so many seconds, if it is still there."""
        self._finishing = asyncio.get_running_loop().call_later(life_s, self.finish)

    def part(self) -> None:
        """End it although answers may be missing: what has come of them reaches the client. One that has just begun
        goes on.
        """
        if self._is_settled and not self._is_leaving:
            self._is_leaving = True
            self._broker.reset()
            self.client.say_goodbye(self._limits.linger_s)
            self.client.read(on=True)

    def overdue(self, now: float) -> tuple[Refusal, str] | None:
        """Why it is to be ended at this time (monotonic), if it is."""
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
        return self._gone(now) if self._in_the_way and not self._is_leaving else None

    def _gone(self, now: float) -> tuple[Refusal, str] | None:
        """Why a client that is not read from is to be ended, as it has left."""
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
            # Nobody says so where it ended within a TLS handshake.
            self.client.connection_lost(error)
        except Exception:  # noqa: BLE001 - all others go on
            _log.exception("a connection from %s could not be opened", self.address)
            self.abandon()
            self.client.connection_lost(None)
        else:
            # Until here nobody could hear the client.
            self._is_dialing, self._since = False, time.monotonic()
            self._let("connecting")
            early, self._early = self._early, bytearray()
            self.take(self.client, memoryview(early))

    def _new_broker(self) -> PassageEnd:
        self._broker = PassageEnd(self._scratch, self)
        return self._broker

    def made(self, end: PassageEnd) -> None:
        """An end is connected."""
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
            # TLS may read a little before it can be told not to.
            self._early += chunk
            return
        self.conversation.now = time.monotonic()
        self._events.awake(lasting_s())
        try:
            if end is self.client:
                self.request_bytes += len(chunk)
                self._broker.write(self._requests.take(chunk))
                self._see_to_commit()
                self._leave(self._answers.ready())
                self._finish_if_refused()
                if len(self.conversation.expected) >= self._limits.waiting:
                    self._hold("answers")
                self._see_to_room()
            else:
                self.answer_bytes += len(chunk)
                self._leave(self._answers.take(chunk))
                self._see_to_room()
                if len(self.conversation.expected) <= self._limits.waiting // 2:
                    self._let("answers")
        except NotPassed as error:
            self.refuse(Refusal.REQUEST if end is self.client else Refusal.ANSWER, str(error))
        else:
            self._fence_if_between()
            self._end_if_done()

    def _finish_if_refused(self) -> None:
        """End it as brokers do where something is refused that has no answer (acks=0), once the rest has its own."""
        if self.conversation.ends_for and not self._is_ending:
            self._events.refused(self, Refusal.REQUEST, self.conversation.ends_for)
            self.finish()

    def _leave(self, leaving: Sequence[Leaving]) -> None:
        """Send answers to the client, but those that are held and what comes behind them."""
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
            # The client alone: what brokers answer lets nothing go.
            self._hold("held")
        if self._queue.waiting_bytes >= HELD_BYTES_MAX:
            self._hold_broker("held")

    def _see_to_commit(self) -> None:
        """Have it found out what a commit is to wait for, before it is forwarded."""
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
            # It asks elsewhere for what it has given up, and may be in its next transaction.
            self.refuse(Refusal.LEFT, "it left before its commit was forwarded")
            return
        self._requests.decide(asked, decided)
        self._let("commit")
        self.take(self.client, memoryview(b""))

    def release(self) -> None:
        """Some of what is held may leave: it does with all that may as soon as the loop comes to it."""
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
        """An end holds back as much as it may, or takes more again: the other one is read accordingly."""
        if end is self.client:
            self._full_since = time.monotonic() if is_full else None
            if is_full:
                self._hold_broker("client")
            else:
                self._see_to_room()
                self._let_broker("client")
        elif is_full:
            self._hold("broker")
        else:
            self._let("broker")
            self._see_to_room()

    def _see_to_room(self) -> None:
        """Have room for what is gathered as a whole, and give it back once the other side takes it."""
        answers, requests = self._answers, self.conversation.requests
        self._gathers_answer.see_to(answers.gathered_bytes, answers.begun, is_taken=self._full_since is None)
        is_taken = "broker" not in self._in_the_way
        self._gathers_request.see_to(self._requests.gathered_bytes, requests, is_taken=is_taken)

    def lost(self, end: PassageEnd, error: Exception | None) -> None:
        """An end is gone, and so is the other: with what it still has to send, unless this one was broken off."""
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
                # What it still sends is read, and goes nowhere.
                self.client.read(on=True)

    def abandon(self) -> None:
        """End it at once."""
        self.client.reset()
        self._broker.reset()
