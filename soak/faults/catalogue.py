"""All faults there are, and how one is written down: what it does before `yield`, and what undoes it after."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from soak.scene import Setting

Told = Mapping[str, Any]
Act = Callable[[Any, random.Random], Iterator[Told]]
"""Done to a `Scene`, or to a `Grove` where it is for trees; to any `Setting` where it is for both."""
MIRRORS: Final = frozenset({"isthmus", "mm2", "mm2-eos"})
ISTHMUS: Final = frozenset({"isthmus"})
TREE: Final = frozenset({"tree"})
TRANSFORM: Final = frozenset({"transform"})
SINK: Final = frozenset({"sink"})
CHANGING: Final = TRANSFORM | SINK
"""They change what they copy, or are no mirrors; a topic that a fault makes for itself is not among those they copy."""
EVERYBODY: Final = MIRRORS | CHANGING
CONTENDERS: Final = EVERYBODY | TREE


class NotNow(Exception):
    """A fault cannot be done as things are; it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that can be done. `row` is its number in the list of docs/reliability.md.

    It lasts `lasts_s` seconds, from one to the other. Two faults with a claim in common are not done at once. `mirrors`
    are whom it can be done to.
    """

    name: str
    row: int
    describes: str
    act: Act
    lasts_s: tuple[float, float]
    claims: frozenset[str]
    mirrors: frozenset[str]

    def done(self, scene: Setting, chance: random.Random) -> AbstractContextManager[Told]:
        """Do it; at the end of the block it is undone."""
        return contextmanager(self.act)(scene, chance)


FAULTS: Final[dict[str, Fault]] = {}


def fault(
    row: int, *claims: str, lasts_s: tuple[float, float] = (5.0, 15.0), mirrors: frozenset[str] = EVERYBODY
) -> Callable[[Act], Act]:
    """Enter a fault into the catalogue, under the name of its function."""

    def enter(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        FAULTS[name] = Fault(
            name=name,
            row=row,
            describes=(act.__doc__ or "").strip().splitlines()[0],
            act=act,
            lasts_s=lasts_s,
            claims=frozenset(claims),
            mirrors=mirrors,
        )
        return act

    return enter


NOT_DONE: Final = {
    27: "a mirror keeps no checkpoints: its progress is the end of the target's log; an old copy of a query's "
    "checkpoint: tests/faults/test_sink.py",
    30: "Isthmus keeps no state on disks: what it remembers is in a topic of the target (rows 28 and 29)",
    31: "the brokers of a cluster share one kernel: what one had not synced is not lost when it dies",
    35: "limits on sizes are a matter of settings: tests/integration/engine/test_sizes.py",
    36: "damaged batches: tests/faults/test_causes.py",
    37: "tombstones and holes of compaction are part of what is written in every run",
    38: "aborted transactions, and such that nobody ends, are part of what is written in every run",
    39: "formats before Kafka 0.11: tests/integration/engine/test_legacy.py",
    41: "Isthmus writes as an idempotent producer; a stranger with its id is a stranger that writes (row 45)",
    42: "schema registries that are away or number otherwise: tests/integration/schemas/test_gate.py and "
    "tests/integration/schemas/test_distribution.py",
    46: "`isthmus run` is killed by rows 21 to 25; REST, which replicates nothing, is flooded with nonsense by "
    "`python -m soak.rest`",
    47: "there is one version",
    48: "machines with too little memory and partitions by the ten thousand: not here",
}
"""Rows of which there is no fault, and why."""

IN_PART: Final = {
    5: "for up to a quarter of the run: 120 s from 8 minutes on",
    15: "for up to a quarter of the run: ten minutes from 40 minutes on",
    18: "some bytes wait as for a retransmission; no packet is doubled, reordered or damaged; "
    "batches damaged on the disk: tests/faults/test_causes.py",
    21: "at any moment, not at named steps: engines end at random moments too in "
    "tests/integration/engine/test_resume.py, and promotions at each step in tests/integration/links/test_promotion.py",
    22: "workers, or the JVM that holds driver and executor; an executor by itself: "
    "tests/integration/spark/test_standalone.py; memory that runs out: not here",
    24: "speculation is refused before anything runs, so no task is ever run twice by it",
    26: "clocks are an hour off from a start on, and none jumps meanwhile; a machine that sleeps: "
    "tests/unit/kafka/test_clock.py",
    28: "where offsets are mapped the ledger is forged and neither deleted nor emptied: it holds the places of lanes, "
    "which are lost with it where no lease runs just then (docs/offsets.md)",
    29: "no file of a broker may grow; no log directory goes offline",
    33: "certificates that change and tokens that end: tests/integration/kafka/test_security.py; logins that end after "
    "20 s are a condition of some seeds",
    44: "bootstrap servers that change: tests/integration/clusters/test_network.py; names are looked up at each "
    "connection, and no test changes what a DNS server says",
}
"""What a row asks for and its faults do not do, or do elsewhere."""
