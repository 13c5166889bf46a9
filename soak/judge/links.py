"""Whether what `isthmus status` showed of the link itself, its controller and its groups was true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from soak.history import Event
from soak.judge.calm import CUTOVER, Calm, absences
from soak.judge.evidence import Case, Violation
from soak.judge.positions import settled_groups, touched_groups
from soak.judge.states import NAME
from soak.judge.timeline import TERMINAL, Machine

_SILENT_S: Final = 14.0
"""A controller that is gone is called alive for no longer: ten seconds, and the clock of who tells."""
_OPERATORS: Final = frozenset({"PAUSED", "STANDBY", "FAILED"})
"""States of links that only operators cause, or that only `isthmus run` shows."""
_RUNNING: Final = frozenset({"ACTIVE", "IMPAIRED"})
_ALIVE: Final = frozenset({"ALIVE", "THROTTLED"})
"""What a controller that runs is called."""
_QUOTAS: Final = frozenset({"target-quotas", "target-reads-starved"})
"""Faults that may have a controller throttled."""
_UNCAUSED: Final = frozenset(
    {
        "ACTIVE_AT_TARGET",
        "MOVED_AT_TARGET",
        "BY_OTHERS",
        "NOT_MIRRORED",
        "OFFSETS_DIFFER",
        "MIRROR_ENDED",
        "GONE_AT_SOURCE",
        "NOT_AUTHORIZED",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "NAMES_MEET",
        "TRANSLATED",
    }
)
"""Standings with a cause, of which there is none for a group that nobody touched when all is whole."""
_IN_STEP: Final = "IN_STEP"


def i22_link_truth(case: Case) -> Iterator[Violation]:
    """The link's state and problem, its controller's state and the standings of groups are what they have to be."""
    machine = Machine(case.events)
    calm, gone = Calm(case.events, machine), absences(case.events)
    found: dict[str, Violation] = {}
    settled = _settled_last(case)
    quota_at = min((each["at"] for each in case.of("fault") if each["fault"] in _QUOTAS), default=math.inf)
    for event in case.of("status"):
        if "controller" not in event:
            continue
        standings = _groups(case, event, settled if event is _last(case) else {}) if _is_calm(event, calm) else ()
        for where, message in (*_link(event, calm, gone, machine, has_quota=quota_at < event["at"]), *standings):
            violation = Violation(invariant=NAME, where=where, message=f"{message} (told at {event['begun']:.1f} s)")
            found.setdefault(where + message.partition(":")[0], violation)
    yield from found.values()


def _link(
    event: Event, calm: Calm, gone: list[tuple[float, float]], machine: Machine, *, has_quota: bool
) -> Iterator[tuple[str, str]]:
    state, controller, problem = event["state"], event["controller"], event["problem"]
    told = f"{state}, controller {controller}, {problem}"
    is_away = problem is not None or controller == "UNKNOWN"
    if state in _OPERATORS:
        yield "link", f"nobody did that: {told}"
    elif is_away != (state == "UNAVAILABLE") or (not is_away and (controller in _ALIVE) != (state in _RUNNING)):
        yield "link", f"contradiction: {told}"
    elif controller == "THROTTLED" and not has_quota:
        yield "link", f"THROTTLED without a quota: {told}"
    elif _is_calm(event, calm) and (state not in _RUNNING or (controller, problem) != ("ALIVE", None)):
        yield "link", f"not ACTIVE though all was whole: {told}"
    in_trouble = sorted(topic["topic"] for topic in event["topics"] if topic["state"] in TERMINAL)
    if state == "ACTIVE" and in_trouble:
        yield "link", f"plainly ACTIVE: {', '.join(in_trouble)} stopped for good"
    elif state == "IMPAIRED" and all(t["state"] == "ACTIVE" and not t["problem"] for t in event["topics"]):
        yield "link", "IMPAIRED: nothing is said of any topic"
    silent_s = _SILENT_S * machine.stretch(event["begun"] - _SILENT_S, event["at"])
    absent = next((one for one in gone if one[0] + silent_s < event["begun"] and event["at"] < one[1]), None)
    if controller == "ALIVE" and absent is not None:
        yield "link", f"ALIVE without a controller: none ran since {absent[0]:.1f} s"


def _is_calm(event: Event, calm: Calm) -> bool:
    return calm.lasts(event["begun"], event["at"])


def _groups(case: Case, event: Event, settled: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Standings that were shown when all was whole; with `settled` those that were waited for."""
    # Groups that go on all the time; others come and go with faults.
    known = {each["group"] for each in case.of("commit")} - touched_groups(case)
    for row in event["groups"]:
        group, standing = row["group"], row["standing"]
        if group not in known:
            continue
        if standing in _UNCAUSED:
            yield group, f"{standing} though all was whole"
        elif settled.get(group) is True and standing != _IN_STEP:
            yield group, f"{standing} though it stands where it stands at the source"
        elif settled.get(group) is False and standing == _IN_STEP:
            yield group, f"{standing} though it does not stand where it stands at the source"


def _last(case: Case) -> Event | None:
    """The last look at the status while everything was to be left alone."""
    ends = [each["at"] for each in case.of("mirror") if each["did"] == "stopping"]
    ends += [each["at"] for each in case.of("phase") if each["name"] == CUTOVER]
    until = min(ends, default=float("inf"))
    return next((each for each in reversed(case.of("status")) if each["at"] <= until), None)


def _settled_last(case: Case) -> dict[str, bool]:
    """Whether groups were carried in the end, after anybody moved them last."""
    last = max((each["at"] for each in case.of("commit")), default=0.0)
    looks = [each for each in case.of("positions") if each["final"] and each["at"] > last]
    return settled_groups(case, looks[-1]) if looks else {}
