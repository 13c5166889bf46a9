"""What a run is like from its beginning to its end: follows from the seed."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from soak.naming import TARGET_PREFIXES, Names, Naming

Flags = Literal["producer-id", "header"]
Ending = Literal["promote", "failover"]
"""What becomes of a link in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Settings of brokers and of the mirror that a run is made under.

    `fetch_slots` is how many fetch sessions a source broker keeps, `target_verifies` whether brokers of the target ask
    a coordinator about transactions, `relogin_s` how long a login lasts (0: for ever). `offsets` and `naming` are those
    of the link; where offsets are mapped others write to the target's topics too, before and meanwhile. `flags` are
    those of a tree. `cutover` is what is done in the end to a second link, a declared one with a topic of its own,
    where that is asked for.
    """

    fetch_slots: int = 1000
    target_verifies: bool = False
    producer_expiration_s: int = 86_400
    transactional_expiration_s: int = 604_800
    relogin_s: int = 0
    on_data_gap: Literal["stop", "continue"] = "stop"
    lease_term_s: int = 20
    offsets: Literal["same", "mapped"] = "same"
    naming: Naming = "identity"
    flags: Flags = "producer-id"
    cutover: Ending | None = None

    @classmethod
    def of(cls, seed: int) -> Self:
        """The conditions of a seed."""
        chance = random.Random(f"conditions {seed}")
        return cls(
            fetch_slots=chance.choice((1000, 1000, 0)),
            target_verifies=chance.random() < 0.2,
            producer_expiration_s=chance.choice((86_400, 86_400, 60)),
            transactional_expiration_s=chance.choice((604_800, 604_800, 30)),
            relogin_s=chance.choice((0, 0, 20)),
            on_data_gap=chance.choice(("stop", "continue")),
            lease_term_s=chance.choice((10, 20, 60)),
            offsets=chance.choice(("same", "mapped")),
            naming=chance.choice(tuple(TARGET_PREFIXES)),
            flags=chance.choice(("producer-id", "header")),
        )

    def suited_to(self, contender: str) -> Self:
        """What of it this contender can be made to do."""
        match contender:
            case "isthmus":
                return self
            case "transform":
                return replace(self, offsets="mapped", cutover=None)
            case "sink":
                return replace(self, offsets="same", cutover=None)
            case _:
                return replace(self, offsets="same", naming="identity", cutover=None)

    @property
    def is_mapped(self) -> bool:
        return self.offsets == "mapped"

    @property
    def names(self) -> Names:
        """How topics are called at the target."""
        return Names(TARGET_PREFIXES[self.naming])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def source_properties(self) -> dict[str, str]:
        """What brokers of the source have in their settings."""
        return {"max.incremental.fetch.session.cache.slots": str(self.fetch_slots), **self._relogin()}

    def target_properties(self) -> dict[str, str]:
        """What brokers of the target have in their settings."""
        return {
            "transaction.partition.verification.enable": str(self.target_verifies).lower(),
            "producer.id.expiration.ms": str(self.producer_expiration_s * 1000),
            "producer.id.expiration.check.interval.ms": "5000",
            "transactional.id.expiration.ms": str(self.transactional_expiration_s * 1000),
            "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
            **self._relogin(),
        }

    def _relogin(self) -> dict[str, str]:
        if not self.relogin_s:
            return {}
        return {"listener.name.proxied.scram-sha-512.connections.max.reauth.ms": str(self.relogin_s * 1000)}
