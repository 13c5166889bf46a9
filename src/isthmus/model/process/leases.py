"""The leases of a link that run, as the ledger knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from isthmus.model.lane import LaneKey
from isthmus.model.text.plain import PlainValue, TextOrNull, null_if_zero, tenths, thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseProgress(PlainValue):
    """A lease that runs partitions of a link; unknown values are null.

    Leases of a slot follow one another as `generation` 1, 2, 3 ... One whose task was not heard yet has neither
    `executor` (Spark's name of it, "driver" on an embedded Spark) nor `host` and `pid`, which are those of the Python
    worker. `busy` is the share of its time for which that worker works, 1 at most, and `records_per_s` what the lease
    copies, both over the last ten seconds. It was heard `age_s` seconds ago.
    """

    SCHEMA: ClassVar = "LeaseStatus"

    slot: int
    generation: int
    executor: TextOrNull = ""
    host: TextOrNull = ""
    pid: Annotated[int, null_if_zero] = 0
    busy: Annotated[float | None, thousandths] = None
    records_per_s: Annotated[float | None, "records_per_second", tenths] = None
    age_s: Annotated[float | None, "heard_seconds_ago", tenths] = None
    partitions: tuple[LaneKey, ...] = ()

    @property
    def name(self) -> str:
        """Its name in tables and in Spark's UI."""
        return f"{self.slot}.{self.generation}"


def describe_partitions(keys: Iterable[LaneKey]) -> str:
    """Describe partitions in few words: `flights 0-3 7, orders 1`."""
    numbers: dict[str, list[int]] = {}
    for key in sorted(keys):
        numbers.setdefault(key.topic, []).append(key.partition)
    return ", ".join(f"{topic} {' '.join(_ranges(found))}" for topic, found in numbers.items())


def _ranges(numbers: Iterable[int]) -> Iterable[str]:
    """Yield runs of numbers that grow: `0-3`, `7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    for first, last in runs:
        yield str(first) if first == last else f"{first}-{last}"
