"""What is measured: copies of several shapes, latency at a steady pace, the price of idle partitions, and eight
clusters in a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from bench.pouring import Pour

Far = Literal["", "source", "target"]
COPYING: Final = ("isthmus", "isthmus-mapped", "mm2-tuned", "mm2-default", "ceiling")
OWN: Final = (
    "isthmus-prefix",
    "isthmus-mm2",
    "isthmus-16-links",
    "isthmus-tree",
    "isthmus-tree-header",
    "isthmus-mesh",
)
"""Isthmus in other ways, each in a case of its own that has plain Isthmus beside it."""
CHANGING: Final = ("isthmus-function", "isthmus-expressions")
"""Isthmus that changes records on the way, in cases of its own."""
OTHER: Final = "isthmus-other"
"""Isthmus of another checkout, where one is given: in all cases between two clusters that have plain Isthmus."""
LINKS: Final = 16
STEADY: Final = ("isthmus", "mm2-tuned", "mm2-default")
_SLOW: Final = "mm2-default"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCase:
    """Records that are all there are copied as fast as it goes; one side may be `far` from the copier.

    `partitions` are those of each topic, `records` those of all topics together.
    """

    name: str
    description: str
    partitions: int
    codec: str
    batch_records: int
    records: int
    records_quick: int
    far: Far = ""
    contenders: tuple[str, ...] = COPYING
    topics: int = 1

    def quick(self) -> CopyCase:
        return replace(self, records=self.records_quick, contenders=_quick(self.contenders))

    def fillings(self, bootstrap_servers: str) -> tuple[Pour, ...]:
        """What the source holds, a value for each topic."""
        return tuple(
            Pour(
                bootstrap_servers=bootstrap_servers,
                topic=f"bench-{self.name}{f'-{number:02d}' if self.topics > 1 else ''}",
                partitions=self.partitions,
                batches=max(self.records // self.topics // self.partitions // self.batch_records, 1),
                codec=self.codec,
                batch_records=self.batch_records,
            )
            for number in range(self.topics)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCase:
    """`records_per_s` records of 256 bytes for `term_s`; of the first `warm_up_s` nothing is counted."""

    name: str
    description: str
    partitions: int = 4
    records_per_s: int = 1000
    term_s: int = 60
    warm_up_s: int = 10
    contenders: tuple[str, ...] = ("direct", *STEADY)

    def quick(self) -> LatencyCase:
        return replace(self, term_s=5, warm_up_s=3, contenders=_quick(self.contenders))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCase:
    """`partitions` that hold one record each and get no more, watched for `term_s` after `settle_s`."""

    name: str
    description: str
    partitions: int = 1000
    settle_s: int = 15
    term_s: int = 60
    contenders: tuple[str, ...] = STEADY

    def quick(self) -> IdleCase:
        return replace(self, partitions=100, settle_s=3, term_s=5, contenders=_quick(self.contenders))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCase:
    """At least `records` in all, the same share of them on each of eight clusters, come to all others."""

    name: str
    description: str
    partitions: int = 2
    records: int = 1_000_000
    records_quick: int = 80_000
    contenders: tuple[str, ...] = ("isthmus-tree", "isthmus-mesh")

    def quick(self) -> TreeCase:
        return replace(self, records=self.records_quick)


def _quick(contenders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in contenders if name != _SLOW)


PairCase = CopyCase | LatencyCase | IdleCase
"""Between two clusters."""
Case = PairCase | TreeCase

_JAVA: Final = CopyCase(
    name="java-none",
    description="16 KiB batches as Java producers make them (61 records), uncompressed, 4 partitions",
    partitions=4,
    codec="none",
    batch_records=61,
    # Twice as many as of the others, as a copy of two seconds is mostly its own beginning; with 16 million, which
    # are 4.3 GB, writing them back to disk may begin meanwhile.
    records=8_000_000,
    records_quick=500_000,
)

CASES: Final[tuple[Case, ...]] = (
    _JAVA,
    CopyCase(
        name="java-lz4",
        description="16 KiB batches as Java producers make them (200 records before lz4), 4 partitions",
        partitions=4,
        codec="lz4",
        batch_records=200,
        records=32_000_000,
        records_quick=500_000,
    ),
    CopyCase(
        name="large-none",
        description="batches of 1,000 records as librdkafka makes them under load (260 KiB), 4 partitions",
        partitions=4,
        codec="none",
        batch_records=1000,
        records=4_000_000,
        records_quick=500_000,
    ),
    CopyCase(
        name="large-lz4",
        description="batches of 1,000 records as librdkafka makes them under load (69 KiB after lz4), 4 partitions",
        partitions=4,
        codec="lz4",
        batch_records=1000,
        records=4_000_000,
        records_quick=500_000,
    ),
    CopyCase(
        name="tiny",
        description="one record per batch, uncompressed, 4 partitions",
        partitions=4,
        codec="none",
        batch_records=1,
        records=400_000,
        records_quick=40_000,
    ),
    CopyCase(
        name="partitions-64",
        description="16 KiB batches (61 records), uncompressed, 64 partitions",
        partitions=64,
        codec="none",
        batch_records=61,
        records=4_000_000,
        records_quick=500_000,
    ),
    CopyCase(
        name="far-target",
        description="16 KiB batches (61 records), uncompressed, 4 partitions, the target 50 ms away (there and back)",
        partitions=4,
        codec="none",
        batch_records=61,
        records=1_000_000,
        records_quick=100_000,
        far="target",
    ),
    CopyCase(
        name="far-source",
        description="16 KiB batches (61 records), uncompressed, 4 partitions, the source 50 ms away (there and back)",
        partitions=4,
        codec="none",
        batch_records=61,
        records=1_000_000,
        records_quick=100_000,
        far="source",
        contenders=STEADY,
    ),
    replace(
        _JAVA,
        name="naming",
        description="16 KiB batches (61 records), uncompressed, 4 partitions: the same name, and another prefix",
        contenders=("isthmus", "isthmus-prefix"),
    ),
    replace(
        _JAVA,
        name="mm2-topics",
        description="16 KiB batches (61 records), uncompressed, 4 partitions: with MirrorMaker 2's topics and without",
        contenders=("isthmus", "isthmus-mm2"),
    ),
    replace(
        _JAVA,
        name="links-16",
        description="16 KiB batches (61 records), uncompressed, 16 topics of 4 partitions, in one link and in one each",
        contenders=("isthmus", "isthmus-16-links"),
        topics=LINKS,
    ),
    replace(
        _JAVA,
        name="tree",
        description="16 KiB batches (61 records), uncompressed, 1 partition: mirrored, and distributed in a tree",
        partitions=1,
        records=4_000_000,
        contenders=("isthmus", "isthmus-tree", "isthmus-tree-header", "mm2-tuned"),
    ),
    replace(
        _JAVA,
        name="changed",
        description="16 KiB batches (61 JSON records), uncompressed, 4 partitions: copied, and with one field changed",
        records=1_000_000,
        records_quick=100_000,
        contenders=("isthmus", *CHANGING, "mm2-tuned"),
    ),
    LatencyCase(name="latency", description="1,000 records of 256 bytes a second into 4 partitions"),
    LatencyCase(
        name="latency-changed",
        description="1,000 records of 256 bytes a second into 4 partitions, with a header or value changed",
        contenders=("isthmus", *CHANGING),
    ),
    IdleCase(name="idle", description="1,000 partitions, everything copied, nothing new"),
    TreeCase(
        name="tree-8",
        description="8 clusters in one process with 2 slots: in a tree of 24 distributors, and 56 links that mirror",
    ),
)
