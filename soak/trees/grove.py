"""Four clusters of one broker each, the tree over them, and who writes on each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from soak.census import Census
from soak.conditions import Conditions
from soak.content import Style
from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.naming import PREFIX
from soak.scene import Setting
from soak.side import Side
from soak.workloads.plain import CODECS, Acks, Pen, PlainWriter
from soak.workloads.transactional import TransactionalWriter

NAME: Final = "tree"
LEAVES: Final = ("a", "b", "c", "d")
SHAPE: Final = [["a", "b"], ["c", "d"]]
UPPER: Final = 2
"""The level at which a distributor may choose its leaf."""
PLAIN, TRANSACTIONS = f"{PREFIX}plain", f"{PREFIX}transactions"
PARTITIONS: Final = 2
KEYS: Final[tuple[PartitionKey, ...]] = tuple((t, p) for t in (PLAIN, TRANSACTIONS) for p in range(PARTITIONS))
HEADER: Final = "copies"
_RECORDS_PER_S: Final = 4.0
_PAUSE_S: Final = (2.0, 5.0)
"""Every message is copied three times, and most are batches of their own: little is enough to keep a machine busy."""


@dataclass(slots=True, kw_only=True)
class Grove(Setting):
    """A tree at work."""

    leaves: Sequence[Side]
    census: Census

    def copied_all(self) -> int:
        return sum(self.census.counts.values())

    def others(self, leaf: Side) -> list[Side]:
        """The leaves of the other half."""
        (half,) = (each for each in SHAPE if leaf.name not in each)
        return [each for each in self.leaves if each.name in half]


def tree_document(leaves: Sequence[Side], conditions: Conditions) -> dict[str, Any]:
    """The configuration of a tree that distributes all topics of a run."""
    flags = {"flags": conditions.flags, **({"header": {"name": HEADER}} if conditions.flags == "header" else {})}
    return {
        "clusters": {leaf.name: leaf.login() for leaf in leaves},
        "trees": [{"name": NAME, "clusters": SHAPE, "topics": [f"{PREFIX}*"], **flags}],
        "spark": {"master": "local[2]", "lease_term_s": conditions.lease_term_s},
        "ledger": {"replication_factor": 1},
    }


class Writers:
    """On every cluster two idempotent producers and a transactional one. The name of each begins with its cluster."""

    def __init__(self, leaves: Sequence[Side], history: History, seed: int) -> None:
        self._writers: list[PlainWriter | TransactionalWriter] = []
        for leaf in leaves:
            chance = random.Random(f"writers {leaf.name} {seed}")
            for linger_ms in (1, 100):
                pen = Pen(
                    name=f"{leaf.name}-plain-{linger_ms}",
                    topic=PLAIN,
                    partitions=PARTITIONS,
                    codec=chance.choice(CODECS),
                    linger_ms=linger_ms,
                    records_per_s=_RECORDS_PER_S,
                    style=Style(value_bytes=chance.choice((50, 400))),
                )
                self._writers.append(PlainWriter(pen, leaf, history))
            name = f"{leaf.name}-transactions"
            each = chance.randrange(1 << 20)
            self._writers.append(
                TransactionalWriter(name, TRANSACTIONS, PARTITIONS, leaf.servers, history, each, pause_s=_PAUSE_S)
            )

    @property
    def acks(self) -> Mapping[str, Acks]:
        """What was acknowledged, by writer."""
        return {
            writer.pen.name if isinstance(writer, PlainWriter) else writer.name: writer.acks for writer in self._writers
        }

    @property
    def records(self) -> int:
        """How many records clusters have acknowledged."""
        return sum(acks.count for acks in self.acks.values())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the block lasts; at its end all that was begun is ended."""
        for writer in self._writers:
            writer.begin()
        try:
            yield
        finally:
            for writer in self._writers:
                writer.end()
            for writer in self._writers:
                writer.wait()
