"""What has to hold of a tree: every message that is committed on one cluster is on every one, once and in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from soak.content import record_id
from soak.history import Event
from soak.judge.evidence import Case, Log, PartitionKey, Seen, Violation
from soak.judge.health import i20_no_secret_leak, i21_no_bug

_SHOWN: Final = 5
Forest = Mapping[str, Mapping[PartitionKey, Log]]
"""The logs of every cluster, by its name."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What was acknowledged to producers: the ids of a partition that have to be everywhere, and those that may be."""

    due: Mapping[PartitionKey, frozenset[str]]
    issued: Mapping[PartitionKey, frozenset[str]]


def judged_tree(events: Sequence[Event], forest: Forest) -> tuple[Violation, ...]:
    """Everything that does not hold."""
    case = Case(events=tuple(events), lanes=())
    return tuple(_violations(case, forest))


def _violations(case: Case, forest: Forest) -> Iterator[Violation]:
    origins = origins_of(case.events)
    for key in sorted({key for logs in forest.values() for key in logs}):
        logs = {leaf: logs[key] for leaf, logs in forest.items()}
        visible = {leaf: [each for each in log.records if each.offset in log.visible] for leaf, log in logs.items()}
        yield from everywhere(key, visible, origins)
        yield from once(key, visible)
        yield from nothing_else(key, visible, origins)
        yield from as_they_were(key, visible)
        yield from in_order(key, visible)
    yield from i20_no_secret_leak(case)
    yield from i21_no_bug(case)
    yield from recovered(case, "T6 recovery", "T7 shown")


Visible = Mapping[str, Sequence[Seen]]
"""What read_committed consumers see of a partition, by cluster."""


def everywhere(key: PartitionKey, visible: Visible, origins: Origins) -> Iterator[Violation]:
    """What was acknowledged, and committed where it was part of a transaction, is on every cluster, and what is on one
    is on all.
    """
    due = origins.due.get(key, frozenset()).union(*({each.id or "" for each in seen} for seen in visible.values()))
    for leaf, seen in visible.items():
        missing = due - {each.id or "" for each in seen}
        yield from _found("T1 everywhere", leaf, key, missing, "are not here")


def once(key: PartitionKey, visible: Visible) -> Iterator[Violation]:
    """No message is on a cluster twice."""
    for leaf, seen in visible.items():
        counts = Counter(each.id for each in seen)
        yield from _found("T2 once", leaf, key, (str(each) for each, n in counts.items() if n > 1), "are here twice")


def nothing_else(key: PartitionKey, visible: Visible, origins: Origins) -> Iterator[Violation]:
    """Nothing is there that nobody sent."""
    for leaf, seen in visible.items():
        unknown = {each.id or "" for each in seen} - origins.issued.get(key, frozenset())
        yield from _found("T3 nothing else", leaf, key, unknown, "were sent by nobody")


def as_they_were(key: PartitionKey, visible: Visible) -> Iterator[Violation]:
    """Keys, values, headers and timestamps are those of the producer, wherever the message is."""
    for leaf, seen in visible.items():
        broken = (each.id or "" for each in seen if not each.is_sound)
        yield from _found("T4 as they were", leaf, key, broken, "are not as they were made")


def in_order(key: PartitionKey, visible: Visible) -> Iterator[Violation]:
    """The messages of a producer are in one order on all clusters: that of the cluster where they came in."""
    for leaf, seen in visible.items():
        for writer, ids in _by_writer(seen).items():
            origin = _by_writer(visible.get(writer.partition("-")[0], ())).get(writer, [])
            place = {each: number for number, each in enumerate(origin)}
            places = [place[each] for each in ids if each in place]
            late = [ids[n] for n in range(1, len(places)) if places[n] < places[n - 1]]
            yield from _found("T5 in order", leaf, key, late, f"of {writer} came late")


def recovered(case: Case, recovery: str, shown: str) -> Iterator[Violation]:
    """When everything was whole again, every cluster got what the others had; and in the end all links say so. Both
    go by the names of their invariants.
    """
    for event in case.of("recovery"):
        yield Violation(invariant=recovery, where="clusters", message=event["problem"])
    for event in case.of("shown"):
        for link in event["links"]:
            if link["state"] != "ACTIVE" or link["problem"]:
                message = f"is {link['state']} when all is quiet: {link['problem']}"
                yield Violation(invariant=shown, where=link["link"], message=message)


def origins_of(events: Iterable[Event]) -> Origins:
    """What producers heard. Of a transaction counts what was committed; what nobody answered may be there or not."""
    told = list(events)
    acked = _acked(event for event in told if event["kind"] == "sent")
    ended = [event for event in told if event["kind"] == "txn"]
    due, issued = defaultdict[PartitionKey, set[str]](set), defaultdict[PartitionKey, set[str]](set)
    transactional = {event["writer"] for event in ended}
    for (writer, key), at in acked.items():
        issued[key].update(at.values())
        if writer not in transactional:
            due[key].update(at.values())
    for event in ended:
        if event["ended"] == "committed":
            for partition, first, last in event["spans"]:
                key = event["topic"], partition
                at = acked[event["writer"], key]
                due[key].update(at[offset] for offset in range(first, last + 1) if offset in at)
    for event in told:
        if event["kind"] == "sent":
            for partition, number, _ in event["failed"]:
                issued[event["topic"], partition].add(record_id(event["writer"], partition, number))
    return Origins(
        due={key: frozenset(ids) for key, ids in due.items()},
        issued={key: frozenset(ids) for key, ids in issued.items()},
    )


def _acked(sent: Iterable[Event]) -> dict[tuple[str, PartitionKey], dict[int, str]]:
    """By writer and partition: the ids that stand at offsets of the cluster where the writer is."""
    found = defaultdict[tuple[str, PartitionKey], dict[int, str]](dict)
    for event in sent:
        for partition, number, offset, count in event["acked"]:
            at = found[event["writer"], (event["topic"], partition)]
            for step in range(count):
                at[offset + step] = record_id(event["writer"], partition, number + step)
    return found


def _by_writer(seen: Sequence[Seen]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in seen:
        if each.id:
            found[each.id.partition(".")[0]].append(each.id)
    return found


def _found(invariant: str, leaf: str, key: PartitionKey, ids: Iterable[str], what: str) -> Iterator[Violation]:
    witnesses = sorted(ids)
    if witnesses:
        where, message = f"{leaf}: {key[0]}-{key[1]}", f"{len(witnesses)} messages {what}"
        yield Violation(invariant=invariant, where=where, message=message, witnesses=tuple(witnesses[:_SHOWN]))
