"""The bounds of clients: the number of connections, the time until a login, the size of frames. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    """The bounds of a gateway. Times are in seconds.

    A client has to send a request within `first_frame_s`, and where the brokers ask for a login, to have logged in
    within `login_s`. `frame_bytes` is the largest request, `header_bytes` the most gathered of one until its header is
    complete, `answer_bytes` the same for answers that are rewritten. `waiting` is the number of requests of a
    connection that may wait for their answers: more are not read. A client that reads none of its answers for
    `stalled_s` is disconnected: a consumer that is busy with its records reads none either, and brokers allow that for
    the same time. An end in good order takes `drain_s` at most, and within it a client has `linger_s` to disconnect
    once it has all its answers.

    Requests of a client that has left are delivered for up to `gone_s`. Answers of more than `gathered_free_bytes` that
    have to be gathered take `gathered_bytes` together, for all connections, and each at most `gathering_s`; so do
    requests, as long as others wait for their room.
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
    """The number of connections, by address."""

    def __init__(self, limits: GatewayBounds) -> None:
        self._limits = limits
        self._by_address = Counter[str]()
        self._all = 0

    @property
    def all(self) -> int:
        """The number of all connections."""
        return self._all

    def refusal(self, address: str) -> str:
        """Return why one more connection from an address is too many, "" if it is not."""
        if self._all >= self._limits.connections:
            return f"there are {self._all} connections already (--connections-max)"
        if self._by_address[address] >= self._limits.connections_per_address:
            return f"{self._by_address[address]} connections are from there (--connections-per-address)"
        return ""

    def enter(self, address: str) -> None:
        """Add a connection."""
        self._all += 1
        self._by_address[address] += 1

    def leave(self, address: str) -> None:
        """Remove a connection."""
        self._all -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class GatheringRoom:
    """The memory of requests or answers that are gathered as a whole, for all connections together. Room is given for a
    whole frame at once, in the order of the requests, so that no frame waits for more while it holds some.
    """

    def __init__(self, limits: GatewayBounds) -> None:
        self._most = limits.gathered_bytes
        self._waiting: deque[tuple[object, int, Callable[[], None]]] = deque()
        self._taken: dict[object, int] = {}
        self.taken_bytes = 0

    @property
    def is_wanted(self) -> bool:
        """Whether a request for room waits."""
        return bool(self._waiting)

    def ask(self, who: object, size: int, then: Callable[[], None]) -> None:
        """Take `size` bytes, and call `then` once they are taken: at once, if there is room."""
        self._waiting.append((who, min(size, self._most), then))
        self._admit()

    def give(self, who: object) -> None:
        """Give back the room of a request, or cancel its wait."""
        self.taken_bytes -= self._taken.pop(who, 0)
        self._waiting = deque(each for each in self._waiting if each[0] is not who)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.taken_bytes + self._waiting[0][1] <= self._most:
            who, size, then = self._waiting.popleft()
            self._taken[who] = size
            self.taken_bytes += size
            then()
