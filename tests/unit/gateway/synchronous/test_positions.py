"""When the follower of a link has the positions that its source has."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.gateway.synchronous import positions
from isthmus.gateway.synchronous.positions import PositionWatch
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.group import Committed
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic

KEY = (SourceTopic("orders"), 0)
COPY = ("copy.orders", 0)


@dataclass(slots=True)
class Sides:
    """What both clusters tell, and of which logs they were asked."""

    here: dict[PartitionKey, int]
    there: dict[PartitionKey, int]
    start: int
    name: str = "orders"
    asked: list[PartitionKey] = field(default_factory=list)
    client = "there"

    @property
    def follower(self) -> Sides:
        return self

    def target_topic(self, source_topic: str) -> str:
        return f"copy.{source_topic}"

    def target_group(self, source_group: str) -> str:
        return source_group

    async def committed_offsets(self, client: Any, groups: Collection[str], **_: Any) -> Outcomes[str, Any]:
        """The positions of every group."""
        found = self.there if client == "there" else self.here
        told = {key: Committed(offset) for key, offset in found.items()}
        return Outcomes(dict.fromkeys(groups, told), {})

    async def log_ranges(self, _: Any, keys: Collection[PartitionKey], **__: Any) -> Outcomes[PartitionKey, Any]:
        """Where logs of the follower begin."""
        self.asked += keys
        return Outcomes({key: LogRange(self.start, 20, 20) for key in keys}, {})


@pytest.mark.parametrize(
    ("here", "there", "start", "is_there", "is_asked"),
    [
        ({KEY: 5}, {COPY: 5}, 0, True, False),
        ({KEY: 5}, {COPY: 3}, 0, False, False),
        ({KEY: 5}, {}, 7, False, False),
        # The source went back, and the follower has not yet.
        ({KEY: 5}, {COPY: 7}, 0, False, True),
        # Its retention has taken the record there: the group is as near as it can be, or was as its log began earlier.
        ({KEY: 5}, {COPY: 7}, 7, True, True),
        ({KEY: 5}, {COPY: 7}, 9, True, True),
        ({KEY: 5}, {COPY: 8}, 7, False, True),
        ({KEY: 5}, {COPY: 3}, 7, False, False),
        ({}, {COPY: 7}, 7, False, False),
    ],
)
def test_a_position_is_there_if_it_is_as_near_as_the_log_lets_it_be(
    here: Mapping[PartitionKey, int],
    there: Mapping[PartitionKey, int],
    start: int,
    is_there: bool,
    is_asked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A position before the follower's log start is carried as that, and would never be equal."""
    sides = Sides(dict(here), dict(there), start)
    for name in ("committed_offsets", "log_ranges"):
        monkeypatch.setattr(positions, name, getattr(sides, name), raising=False)

    async def story() -> bool:
        woken = list[bool]()
        watch = PositionWatch(cast("Any", sides), cast("Any", "here"))
        waiting = watch.wait("readers", [KEY], lambda: woken.append(True))
        await watch._ask([waiting])
        await watch.aclose()
        return bool(woken)

    assert asyncio.run(story()) is is_there
    assert sides.asked == [COPY] * is_asked


def test_who_is_there_does_not_wait_for_logs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower whose logs nobody tells of keeps only those waiting that are to be held against them."""
    sides = Sides({KEY: 5, ("payments", 0): 6}, {COPY: 7, ("copy.payments", 0): 6}, 0)

    async def untold(*_: Any, **__: Any) -> Any:
        raise Unreachable("nobody tells", cluster="there")

    monkeypatch.setattr(positions, "committed_offsets", sides.committed_offsets)
    monkeypatch.setattr(positions, "log_ranges", untold)

    async def story() -> list[str]:
        woken = list[str]()
        watch = PositionWatch(cast("Any", sides), cast("Any", "here"))
        waiting = [
            watch.wait(topic, [(topic, 0)], partial(woken.append, topic))
            for topic, _ in (KEY, (SourceTopic("payments"), 0))
        ]
        with pytest.raises(Unreachable):
            await watch._ask(waiting)
        await watch.aclose()
        return woken

    assert asyncio.run(story()) == ["payments"]


def test_only_the_broker_that_took_a_commit_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one that is taken for the coordinator, as it was cut off, tells of the time before, as the follower does.
    One that coordinates no more tells nothing.
    """
    told: dict[Any, dict[PartitionKey, int]] = {None: {KEY: 3}, 1: {KEY: 5}, "there": {COPY: 3}}

    async def committed(client: Any, groups: Collection[str], *, node: int | None = None, **_: Any) -> Any:
        found = told.get("there" if client == "there" else node)
        values = {} if found is None else {key: Committed(offset) for key, offset in found.items()}
        return Outcomes(dict.fromkeys(groups, values) if found is not None else {}, {})

    monkeypatch.setattr(positions, "committed_offsets", committed)
    sides = Sides({}, {}, 0)
    monkeypatch.setattr(positions, "log_ranges", sides.log_ranges)

    async def story() -> None:
        woken = set[str]()
        watches = {node: PositionWatch(cast("Any", sides), cast("Any", "here"), node) for node in (None, 1, 2)}
        waiting = {node: each.wait("readers", [KEY], partial(woken.add, f"{node}")) for node, each in watches.items()}
        is_told = {node: await each._ask([waiting[node]]) for node, each in watches.items()}
        assert (woken, is_told) == ({"None"}, {None: True, 1: True, 2: False})
        told["there"] = {COPY: 5}
        for node, each in watches.items():
            await each._ask([waiting[node]])
        assert woken == {"None", "1"}
        await asyncio.gather(*(each.aclose() for each in watches.values()))

    asyncio.run(story())
