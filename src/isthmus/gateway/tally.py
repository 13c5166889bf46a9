"""Count the traffic of a gateway by the client software."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from isthmus.gateway.conversation import Software
from isthmus.model.gateways.figures import ClientFigures, Refusal

_KINDS_MAX: Final = 100
_OTHERS: Final = Software("others", "any")
"""The maximum of counted kinds of clients, as their names are arbitrary."""


class Counted(Protocol):
    """A connection, as far as it is counted."""

    request_bytes: int
    answer_bytes: int

    @property
    def software(self) -> Software: ...
    @property
    def requests(self) -> int: ...


class GatewayTally:
    """Counts of one process. Open connections are counted when asked, and closed ones are added up."""

    def __init__(self) -> None:
        self.refused = Counter[Refusal]()
        self._gone = dict[Software, list[int]]()

    def leave(self, passage: Counted) -> None:
        """Add the counts of a connection that has ended."""
        _add(self._gone, passage, is_there=False)

    def figures(self, passages: Iterable[Counted]) -> tuple[ClientFigures, ...]:
        """Return the counts of all traffic, including open connections."""
        sums = {software: list(sums) for software, sums in self._gone.items()}
        for passage in passages:
            _add(sums, passage, is_there=True)
        return tuple(
            ClientFigures(
                software=software.name,
                version=software.version,
                connections=there,
                connected=connected,
                requests=requests,
                request_bytes=request_bytes,
                answer_bytes=answer_bytes,
            )
            for software, (there, connected, requests, request_bytes, answer_bytes) in sorted(sums.items())
        )


def _add(sums: dict[Software, list[int]], passage: Counted, *, is_there: bool) -> None:
    software = passage.software
    if software not in sums and len(sums) >= _KINDS_MAX:
        software = _OTHERS
    of_kind = sums.setdefault(software, [0] * 5)
    of_kind[0] += is_there
    of_kind[1] += 1
    of_kind[2] += passage.requests
    of_kind[3] += passage.request_bytes
    of_kind[4] += passage.answer_bytes
