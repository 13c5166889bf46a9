"""Distribute lanes over groups of leases, so that no two leases ever hold the same lane. No clock, no I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from isthmus.ledger.documents.kinds import LeaseDocument
from isthmus.model.lane import Lane, LaneKey, LaneMark
from isthmus.model.link import Limits
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.leases.spread import IDLE_BUSY, LaneMove, lightest, load_of, shares


@dataclass(slots=True, eq=False)
class LeaseGroup:
    """The leases of one slot, one after the other.

    `lanes` are what the slot is to run. `held` has the leases that are not known to be over, mostly one and two at a
    hand-over, and the lanes that each may be writing, `begun` those that each began with. Leases up to `ended_through`
    are over; `is_clean` says that the last one that wrote left nothing in flight, `marks` the state in which it left
    the lanes. `is_untold` says that the ledger does not have a change yet. `taken` has the lanes that were taken from
    the slot while leases held them, each with the revision of that change, and `let_go` the revision up to which a
    lease no longer writes taken lanes. A group that `is_closed` gets no lanes; lanes are to come to one that
    `is_awaited`, and a lease has to run there first. `busy` is the share of its time for which the worker of its lease
    works, `None` while that is unknown.
    """

    link: str
    slot: int
    controller: int
    is_clean: bool = True
    marks: tuple[LaneMark, ...] = ()
    lanes: dict[LaneKey, Lane] = field(default_factory=dict)
    held: dict[int, set[LaneKey]] = field(default_factory=dict)
    begun: dict[int, frozenset[LaneKey]] = field(default_factory=dict)
    taken: dict[LaneKey, int] = field(default_factory=dict)
    let_go: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    revision: int = 0
    revoked_through: int = 0
    is_untold: bool = False
    is_closed: bool = False
    is_awaited: bool = False
    busy: float | None = None
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended_through(self) -> int:
        return min(self.held, default=self.generation + 1) - 1

    @property
    def needs_lease(self) -> bool:
        """Whether there are lanes to run, now or soon."""
        return not self.is_closed and (bool(self.lanes) or self.is_awaited)

    def holds(self, key: LaneKey) -> bool:
        """Whether a lease of the group may be writing the lane."""
        return any(key in held for held in self.held.values())

    def begin(self) -> int:
        """Begin a new lease with the current lanes of the group; return its generation."""
        self.generation += 1
        self.revision += 1
        self.held[self.generation] = set(self.lanes)
        self.begun[self.generation] = frozenset(self.lanes)
        self.is_awaited = False
        return self.generation

    def parting(self) -> tuple[LaneKey, ...]:
        """Return the lanes that no longer belong to the slot, but may still be written by its lease."""
        found = {
            key
            for generation, held in self.held.items()
            for key in held - self.lanes.keys()
            if not self._has_let_go(generation, key)
        }
        return tuple(sorted(found))

    def _has_let_go(self, generation: int, key: LaneKey) -> bool:
        return key in self.taken and self.taken[key] <= self.let_go.get(generation, -1)

    def release(self, generation: int) -> None:
        """A lease holds taken lanes no longer that it has let go of."""
        self.keep(generation, {key for key in self.held[generation] if not self._has_let_go(generation, key)})

    def keep(self, generation: int, keys: Iterable[LaneKey]) -> None:
        """A lease holds these lanes alone from now on. It may not have settled others that it began with."""
        self.held[generation].intersection_update(keys)
        self.begun[generation] = self.begun[generation].intersection(keys)

    def document(self, limits: Limits | None = None) -> LeaseDocument:
        """Build the document of the slot; `limits` are those of a lease."""
        return LeaseDocument(
            link=self.link,
            slot=self.slot,
            controller=self.controller,
            generation=self.generation,
            revision=self.revision,
            lanes=tuple(self.lanes.values()),
            parting=self.parting(),
            revoked_through=self.revoked_through,
            ended_through=self.ended_through,
            is_clean=self.is_clean,
            limits=limits,
        )

    def expect(self) -> None:
        """Have a lease run for lanes that are to come."""
        self.is_awaited = True
        self.stirred.set()

    def retell(self) -> None:
        """Publish the document again, as something other than its lanes changed."""
        self.revision += 1
        self.is_untold = True

    def put(self, key: LaneKey, lane: Lane | None) -> None:
        """Run the lane as given from now on, or, with `None`, no more; its leases may hold it until they are over."""
        self.retell()
        if lane is None:
            self.lanes.pop(key, None)
            self.taken[key] = self.revision
        else:
            self.lanes[key] = lane
            self.taken.pop(key, None)
            for held in self.held.values():
                held.add(key)
        self.stirred.set()


class Distribution:
    """The lanes of a link over the groups of its leases. `progress` has their rates, and forgets those that go."""

    def __init__(self, groups: list[LeaseGroup], progress: RunProgress) -> None:
        self.groups = groups
        self.changed = asyncio.Event()
        self._progress = progress
        self._load = progress.load
        self._wanted: dict[LaneKey, Lane] = {}
        self._parked: dict[LaneKey, Lane] = {}
        self._moving: dict[LaneKey, int] = {}
        self._unsettled: set[LaneKey] = set()

    def assign(self, lanes: Iterable[Lane]) -> None:
        """Run exactly these lanes. New ones join a running lease; those that run already stay in their groups.

        A lane that ended in a terminal state stays so until it is left out once, or given with other properties.
        """
        self._wanted = {lane.key: lane for lane in lanes}
        self._parked = {key: lane for key, lane in self._parked.items() if self._wanted.get(key) == lane}
        self._settle()
        self._progress.forget(each.key for each in self._progress.reports() if each.key not in self._wanted)

    def park(self, keys: Iterable[LaneKey]) -> None:
        """Stop lanes that have ended for good: they run again only when they are assigned again."""
        found = {key: self._wanted[key] for key in keys if key in self._wanted and key not in self._parked}
        if found:
            self._parked |= found
            self._settle()

    def hand_over(self, group: LeaseGroup) -> None:
        """Begin the group's next lease."""
        for key, lane in group.lanes.items():
            if lane.is_unsettled and key not in self._unsettled:
                group.lanes[key] = replace(lane, is_unsettled=False)
        group.begin()

    def send_out(self, group: LeaseGroup) -> None:
        """Note that the group's newest lease is given the lanes that the group has now: what was taken from it since
        that lease was begun it never has, and so it would never say that it has let go of it.
        """
        group.keep(group.generation, group.lanes)
        self._forget_taken(group)
        self._settle()

    def move(self, moves: Iterable[LaneMove]) -> None:
        """Take lanes from the leases that run them now; each joins its new group when its lease has let go of it."""
        for key, slot, goal in moves:
            group = self.groups[slot]
            if key in group.lanes:
                self._moving[key] = goal
                self._doubt(group, [key])
                self._put(group, key, None)
        self._settle()

    def close(self, group: LeaseGroup) -> None:
        """Give the group no lanes any more; those that it has go to others when its leases have let go of them."""
        group.is_closed, group.is_awaited, group.busy = True, False, None
        self._settle()

    def reopen(self, group: LeaseGroup) -> None:
        """Let the group have lanes again."""
        group.is_closed = False
        self._settle()

    def let_go(self, group: LeaseGroup, generation: int, revision: int) -> None:
        """Note that a lease no longer writes the lanes that were taken from it up to this revision."""
        if generation in group.held and revision > group.let_go.get(generation, -1):
            group.let_go[generation] = revision
            group.release(generation)
            self._forget_taken(group)
            self._retell(group)
            self._settle()

    def _forget_taken(self, group: LeaseGroup) -> None:
        group.taken = {key: revision for key, revision in group.taken.items() if group.holds(key)}

    def _retell(self, group: LeaseGroup) -> None:
        """Publish the document without a new revision: fewer lanes are in flight, which its lease knows."""
        group.is_untold = True
        self.changed.set()

    def note_end(self, group: LeaseGroup, generation: int, *, is_clean: bool | None) -> None:
        """Note that a lease will never write again. `is_clean` is None when it never did."""
        held = group.held.pop(generation, None)
        if held is None:
            return
        group.let_go.pop(generation, None)
        self._forget_taken(group)
        if group.held and not held <= group.lanes.keys():
            self._retell(group)
        begun = group.begun.pop(generation)
        if is_clean is not None:
            group.is_clean = is_clean
        if is_clean:
            # A lease that leaves nothing in flight has settled the lanes that it began with.
            self._unsettled -= begun
        self._doubt(group, held - group.lanes.keys())
        group.stirred.set()
        self._settle()

    def _doubt(self, group: LeaseGroup, leaving: Iterable[LaneKey]) -> None:
        """Mark lanes that leave the group as unsettled, if its last lease left writes in flight: only the next lease of
        the same slot knows of those.
        """
        if not group.is_clean:
            self._unsettled.update(leaving)

    def _settle(self) -> None:
        """Bring the groups in line with the wanted lanes."""
        wanted = {key: lane for key, lane in self._wanted.items() if key not in self._parked}
        self._moving = {key: goal for key, goal in self._moving.items() if key in wanted}
        homes: dict[LaneKey, LeaseGroup] = {}
        for group in self.groups:
            for key in list(group.lanes):
                if key in wanted and not group.is_closed:
                    homes[key] = group
                else:
                    self._doubt(group, [key])
                    self._put(group, key, None)
        loads = self._loads()
        for key, lane in wanted.items():
            home = homes.get(key)
            if home is None:
                home = self._find_home(key, loads)
            known = None if home is None else home.lanes.get(key)
            if home is not None and (known is None or replace(known, is_unsettled=False) != lane):
                self._put(home, key, replace(lane, is_unsettled=key in self._unsettled))
                loads[home.slot] += load_of([self._load(key)])

    def _find_home(self, key: LaneKey, loads: dict[int, float]) -> LeaseGroup | None:
        """Find the group for a lane without one; None while a lease of another group may be writing it."""
        holder = next((group for group in self.groups if group.holds(key)), None)
        if holder is not None and (holder.is_closed or self._moving.get(key, holder.slot) != holder.slot):
            return None
        slot = self._moving.pop(key, None)
        if holder is not None:
            return holder
        return self.groups[slot if slot in loads else lightest(loads)] if loads else None

    def _put(self, group: LeaseGroup, key: LaneKey, lane: Lane | None) -> None:
        group.put(key, lane)
        self.changed.set()

    def _loads(self) -> dict[int, float]:
        return {
            group.slot: load_of(self._load(key) for key in group.lanes) for group in self.groups if not group.is_closed
        }

    def weigh(self) -> dict[int, dict[LaneKey, float]] | None:
        """Return the lanes of all open groups with the share of its worker's time that each takes, `None` while that of
        a group is unknown, or a lane is on its way to another one.
        """
        found: dict[int, dict[LaneKey, float]] = {}
        for group in self.groups:
            if group.is_closed:
                continue
            if group.lanes and group.busy is None:
                return None
            busy = max(group.busy or 0.0, IDLE_BUSY)
            found[group.slot] = shares({key: self._load(key) for key in group.lanes}, busy)
        return None if self._moving else found
