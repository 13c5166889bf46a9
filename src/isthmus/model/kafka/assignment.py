"""Where replicas of partitions should be: plans that move as little as they can (seed 004)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from isthmus.errors import ConfigError
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.text.plain import computed_field


class Assignment(NamedTuple):
    """The brokers that have a partition, or shall have it; the first one is the preferred leader."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class Assignments(NamedTuple):
    """An assignment as Kafka's own tool writes it."""

    version: int
    partitions: Sequence[Assignment]

    @classmethod
    def of(cls, partitions: Iterable[Assignment]) -> Assignments:
        """Return an assignment of the only version that there is."""
        return cls(1, tuple(partitions))


class Move(NamedTuple):
    """A partition that is to get other replicas; `copies` of it are new.

    They may be the same ones in another order.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def comes(self) -> tuple[int, ...]:
        """The brokers that have to fetch the whole partition."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @computed_field
    def copies(self) -> int:
        """How many replicas are new."""
        return len(self.comes)


def moves_to(assignments: Iterable[Assignment], partitions: Iterable[PartitionState]) -> tuple[Move, ...]:
    """Return the moves that these assignments need; assignments that already hold are left out.

    :raises ConfigError: There is no such partition.
    """
    known = {(state.topic, state.partition): state.replicas for state in partitions}
    found: list[Move] = []
    for one in assignments:
        before = known.get((one.topic, one.partition))
        if before is None:
            raise ConfigError(
                f"there is no partition {one.topic}-{one.partition}, or we may not see it (DESCRIBE)",
                hint="Plan again: partitions or topics have changed since the file was written.",
            )
        if before != one.replicas:
            found.append(Move(one.topic, one.partition, before, one.replicas))
    return tuple(found)


def even_assignments(
    partitions: Sequence[PartitionState], racks: Mapping[int, str | None], *, replicas: int | None = None
) -> tuple[Assignment, ...]:
    """Return an assignment of every partition to the brokers in `racks`: as even as possible, with as few moves as that
    takes.

    Replicas stay on their brokers unless those are not in `racks` or have more than others. Replicas of one partition
    are on as many racks as before, or more. `replicas` is the number for each, the present one if it is `None`.

    :raises ConfigError: There are fewer brokers than replicas.
    """
    most = max((replicas or len(state.replicas) for state in partitions), default=0)
    if most > len(racks):
        raise ConfigError(
            f"{most} replicas cannot be on {len(racks)} brokers",
            hint="Name more brokers (--brokers), or fewer replicas (--replicas).",
        )
    spread = _Spread(racks)
    placed = [
        spread.place([broker for broker in state.replicas if broker in racks], replicas or len(state.replicas))
        for state in partitions
    ]
    spread.level(placed)
    return tuple(
        Assignment(state.topic, state.partition, tuple(on))
        for state, on in zip(partitions, spread.order_leaders(placed), strict=True)
    )


class _Spread:
    """Replicas by broker while they are placed."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self._racks = racks
        self._load: Counter[int] = Counter(dict.fromkeys(racks, 0))

    def place(self, kept: list[int], count: int) -> list[int]:
        """Return the replicas that can stay, and others on the brokers with the least load, on further racks if
        possible.
        """
        on = kept[:count]
        self._load.update(on)
        while len(on) < count:
            used = {self._rack(broker) for broker in on}
            free = [broker for broker in self._racks if broker not in on]
            goal = min(free, key=lambda broker: (self._rack(broker) in used, self._load[broker], broker))
            on.append(goal)
            self._load[goal] += 1
        return on

    def level(self, placed: Sequence[list[int]]) -> None:
        """Move replicas from the brokers with most to those with least, until one more would only swap the two."""
        while self._move_one(placed):
            pass

    def _move_one(self, placed: Sequence[list[int]]) -> bool:
        order = sorted(self._racks, key=lambda broker: (-self._load[broker], broker))
        for fullest in order:
            for goal in reversed(order):
                if self._load[fullest] - self._load[goal] < 2:
                    break
                for on in placed:
                    if fullest in on and goal not in on and self._keeps_racks(on, fullest, goal):
                        on[on.index(fullest)] = goal
                        self._load[fullest] -= 1
                        self._load[goal] += 1
                        return True
        return False

    def _keeps_racks(self, on: Sequence[int], leaves: int, comes: int) -> bool:
        before = {self._rack(broker) for broker in on}
        return len({self._rack(comes if broker == leaves else broker) for broker in on}) >= len(before)

    def order_leaders(self, placed: Sequence[list[int]]) -> list[list[int]]:
        """Return the replicas in an order in which each broker is the first of about as many."""
        even = -(-len(placed) // max(len(self._racks), 1))
        leads: Counter[int] = Counter()
        found: list[list[int]] = []
        for on in placed:
            first = on[0] if leads[on[0]] < even else min(on, key=lambda broker: (leads[broker], on.index(broker)))
            leads[first] += 1
            found.append([first, *(broker for broker in on if broker != first)])
        return found

    def _rack(self, broker: int) -> str:
        # A broker without a rack counts as a rack of its own.
        return self._racks[broker] or f"broker {broker}"
