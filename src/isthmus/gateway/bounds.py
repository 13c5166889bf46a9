"""How much clients may take: how many connections, how long until they say who they are, how large frames are. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    """What a gateway bears. Times are in seconds.

    A client has to send a request within `first_frame_s`, and where the brokers ask for a login, to have logged in
    within `login_s`. `frame_bytes` is the largest request, `header_bytes` what is gathered of one until it is known
    what it is, `answer_bytes` the same of answers that are rewritten. `waiting` is how many requests of a connection
    may wait for their answers: more are not read. Who takes none of its answers for `stalled_s` is left: a
    consumer that is busy with its records takes none either, and brokers bear that for as long. An end in
    good order takes `drain_s` at most, and within it a client has `linger_s` to leave once it has all its answers.

    A client that has left has what it sent delivered for `gone_s`, if the broker does not take it before.
    Answers of more than `gathered_free_bytes` that have to be gathered take `gathered_bytes` together, of all
    connections, and each at most `gathering_s`; so do requests, as long as others wait for their room.
    """

    connections: int = 10_000
    connections_per_address: int = 2_000
    first_frame_s: float = 10.0
    login_s: float = 30.0
    stalled_s: float = 600.0
    drain_s: float = 10.0
    linger_s: float = 1.0
    gone_s: float = 30.0
    connect_s: float = 5.0
    frame_bytes: int = 100 << 20
    header_bytes: int = 70_000
    answer_bytes: int = 128 << 20
    gathered_free_bytes: int = 1 << 20
    gathered_bytes: int = 512 << 20
    gathering_s: float = 30.0
    waiting: int = 2_000


DEFAULTS: Final = GatewayBounds()


class Admission:
    """Who is connected, by address."""

    def __init__(self, limits: GatewayBounds) -> None:
        self._limits = limits
        self._by_address = Counter[str]()
        self._all = 0

    @property
    def all(self) -> int:
        """How many connections there are."""
        return self._all

    def refusal(self, address: str) -> str:
        """Why one more connection from there is too many, "" if it is not."""
        if self._all >= self._limits.connections:
            return f"there are {self._all} connections already (--connections-max)"
        if self._by_address[address] >= self._limits.connections_per_address:
            return f"{self._by_address[address]} connections are from there (--connections-per-address)"
        return ""

    def enter(self, address: str) -> None:
        """One more."""
        self._all += 1
        self._by_address[address] += 1

    def leave(self, address: str) -> None:
        """One less."""
        self._all -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class GatheringRoom:
    """What requests or answers may take that are gathered as a whole, of all connections together. Room is given for a
    whole one at once, in the order in which it was asked for: nobody waits for more while it holds some.
    """

    def __init__(self, limits: GatewayBounds) -> None:
        self._most = limits.gathered_bytes
        self._waiting: deque[tuple[object, int, Callable[[], None]]] = deque()
        self._taken: dict[object, int] = {}
        self.taken_bytes = 0

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiting)

    def ask(self, who: object, size: int, then: Callable[[], None]) -> None:
        """Call `then` when so many bytes are taken: at once, if there is room."""
        self._waiting.append((who, min(size, self._most), then))
        self._admit()

    def give(self, who: object) -> None:
        """Somebody needs its room no more, or does not wait for it any more."""
        self.taken_bytes -= self._taken.pop(who, 0)
        self._waiting = deque(each for each in self._waiting if each[0] is not who)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.taken_bytes + self._waiting[0][1] <= self._most:
            who, size, then = self._waiting.popleft()
            self._taken[who] = size
            self.taken_bytes += size
            then()
