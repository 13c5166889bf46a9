"""What a run with gateways is like from its beginning to its end: follows from the seed."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self

Ending = Literal["calm", "cut", "behind"]
"""How the link is failed over: when nobody writes any more and the source is there; with the source cut off while
clients write; or with the source cut off some time after the lanes were.
"""


class Kind(NamedTuple):
    """A client: its name, which is the first part of the ids of its records, and what it is."""

    name: str
    software: str
    style: str

    @property
    def is_exact(self) -> bool:
        """Whether its records stand once and in order."""
        return self.style in ("idempotent", "transactional")


KINDS = (
    Kind("plain", "librdkafka", "plain"),
    Kind("idempotent", "librdkafka", "idempotent"),
    Kind("transactional", "librdkafka", "transactional"),
    Kind("member", "librdkafka", "group"),
    Kind("python", "kafka-python", "plain"),
    Kind("python-idempotent", "kafka-python", "idempotent"),
    Kind("9", "java", "idempotent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Settings of the link and of clients that a run is made under. `timeouts_ms` are those of clients, by name: some
    are shorter than an answer may be held. `behind_s` is for how long lanes were cut off before the source is.
    """

    out_of_sync: Literal["available", "consistent"]
    visibility: Literal["record", "whole"]
    lag_max_ms: int
    timeouts_ms: tuple[tuple[str, int], ...]
    ending: Ending
    behind_s: float

    @classmethod
    def of(cls, seed: int) -> Self:
        """The conditions of a seed."""
        chance = random.Random(f"gateway {seed}")
        return cls(
            out_of_sync=chance.choice(("available", "consistent")),
            visibility=chance.choice(("record", "whole")),
            lag_max_ms=chance.choice((3_000, 5_000, 10_000)),
            timeouts_ms=tuple((kind.name, chance.choice((1_500, 4_000, 30_000))) for kind in KINDS),
            ending=chance.choice(("calm", "cut", "behind", "behind")),
            behind_s=chance.uniform(0.5, 15.0),
        )

    @property
    def is_consistent(self) -> bool:
        return self.out_of_sync == "consistent"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
