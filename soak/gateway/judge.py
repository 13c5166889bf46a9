"""What has to hold of synchronous links and gateways: from what clients, the ledger and both logs tell to a verdict.

Pure. All times are seconds of one wall clock. It shares no code with what it judges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from soak.history import Event
from soak.judge.evidence import Violation

OUT: Final = "OUT_OF_SYNC"
UNKNOWN: Final = -1
_SHOWN: Final = 5
_CLUSTER_IDS_END: Final = 1 << 40
"""A cluster counts its producers up from 0, and never gets there: ids that are marked lie beyond."""
Partitioned = Mapping[int, int]


class Record(NamedTuple):
    """A record of a log. `is_visible`: consumers at read_committed see it."""

    offset: int
    id: str
    is_visible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a gateway, by its key, had in the ledger of the source between `begin` and `end`, at most: whether it said
    that the link is out of sync, and the first offsets, by partition, that were answered without the follower.
    """

    key: str
    begin: float
    end: float
    is_out: bool
    lets_go: Partitioned


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Records that a client was told are there, at `at`, all together: `records` are partitions, offsets and ids.
    `sent` is when the first was sent, and `asked` when the follower was asked, which had these high watermarks.
    """

    client: str
    records: tuple[tuple[int, int, str], ...]
    sent: float
    at: float
    asked: float
    highs: Partitioned
    is_commit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Positions that a client was told are committed, by partition, and those that the follower had when it was asked
    then, which had told them at `told`: `None` for nothing known.
    """

    client: str
    positions: Partitioned
    sent: float
    at: float
    asked: float
    told: float
    there: Partitioned | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """All that there is to judge a run by.

    `in_force` is since when the link was in sync (infinite: never), `failed_over` when it was given up, and
    `given_up` what the command said may be missing, `None` where it knew nothing. `aborted` are ids of records whose
    transactions were aborted, as clients were told, `exact` the clients whose records stand once and in their order.
    Logs are by partition, `producers` the ids without transactions that the source's leaders know.
    """

    is_consistent: bool
    in_force: float
    failed_over: float
    answered: Sequence[Answered] = ()
    committed: Sequence[Committed] = ()
    words: Sequence[Word] = ()
    given_up: Partitioned | None = None
    aborted: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    source: Mapping[int, Sequence[Record]] = field(default_factory=dict)
    target: Mapping[int, Sequence[Record]] = field(default_factory=dict)
    producers: frozenset[int] = frozenset()

    def is_written_down(self, partition: int, offset: int, asked: float, at: float) -> bool:
        """Whether the ledger had that the follower may lack what is at this offset, before the answer came, and always
        from then on until the follower was asked. A gateway's words follow one another in order.
        """
        has = [word for word in self.words if word.lets_go.get(partition, offset + 1) <= offset]
        return any(word.begin <= at and self._until(word, has) >= asked for word in has)

    def _until(self, word: Word, has: Sequence[Word]) -> float:
        """Until when the ledger had a word, or one of the same gateway that `has` the same and took its place."""
        end = word.end
        for later in has[has.index(word) + 1 :]:
            if later.key == word.key and later.begin <= end:
                end = later.end
        return end

    def was_out(self, begin: float, end: float) -> bool:
        """Whether the ledger had that the link is out of sync, at some time in between."""
        return any(word.is_out and word.begin <= end and word.end >= begin for word in self.words)


def judged(trial: Trial) -> list[Violation]:
    """Everything that does not hold."""
    trial = _placed(trial)
    laws = (g1_held, g2_positions, g3_nothing_lost, g4_once_in_order, g5_aborted, g6_own_answers, g7_own_ids)
    return [violation for law in laws for violation in law(trial)]


def g1_held(trial: Trial) -> Iterator[Violation]:
    """What was acknowledged with acks=all, or committed, was at the follower when the answer came, or the ledger had
    before that it may not be.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for each in trial.answered:
        if each.sent < trial.in_force or each.at > trial.failed_over:
            continue
        for partition, offset, identity in each.records:
            high = each.highs.get(partition)
            if high is None or offset < 0 or high > offset:
                continue
            if trial.is_consistent or not trial.is_written_down(partition, offset, each.asked, each.at):
                what = "committed" if each.is_commit else "acknowledged"
                told = f"{identity} at {partition}:{offset} {what} at {each.at:.3f}"
                found[each.client].append(f"{told}, follower at {high} at {each.asked:.3f}")
    for client, shown in found.items():
        yield _violation("G1 held", client, "told of what the follower did not have", shown)


def g2_positions(trial: Trial) -> Iterator[Violation]:
    """Positions that were committed were the follower's when the answer came, unless the link was out of sync."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in trial.committed:
        if each.sent < trial.in_force or each.at > trial.failed_over or each.there is None:
            continue
        # The next commit may have come there before the follower told.
        later = [one for one in trial.committed if one.client == each.client and each.sent <= one.sent <= each.told]
        other = {
            partition: (position, each.there.get(partition))
            for partition, position in each.positions.items()
            if each.there.get(partition) not in {one.positions.get(partition) for one in later}
        }
        if other and (trial.is_consistent or not trial.was_out(each.sent, each.at)):
            found[each.client].append(f"{other} committed at {each.at:.3f}, asked at {each.asked:.3f}")
    for client, shown in found.items():
        yield _violation("G2 positions", client, "told of positions that the follower did not have", shown)


def g3_nothing_lost(trial: Trial) -> Iterator[Violation]:
    """After a failover consumers at read_committed see all that was acknowledged, but from offsets on that were written
    down, and that the command named if it knew them.
    """
    there = {partition: {each.id for each in log if each.is_visible} for partition, log in trial.target.items()}
    found: dict[str, list[str]] = defaultdict(list)
    for each in trial.answered:
        for partition, offset, identity in each.records:
            if identity in there.get(partition, ()):
                continue
            at = f"{identity} at {partition}:{offset} of {each.at:.3f}"
            if trial.is_consistent or not trial.is_written_down(partition, offset, trial.failed_over, each.at):
                found[each.client].append(at)
            elif trial.given_up is not None and trial.given_up.get(partition, offset + 1) > offset:
                found[each.client].append(f"{at}, though the command names {trial.given_up.get(partition)}")
    for client, shown in found.items():
        yield _violation("G3 nothing lost", client, "acknowledged, and not there after the failover", shown)


def g4_once_in_order(trial: Trial) -> Iterator[Violation]:
    """The records of producers that are idempotent stand once, and in the order in which they were sent."""
    for side, logs in (("source", trial.source), ("target", trial.target)):
        for partition, log in logs.items():
            counts = Counter(record.id for record in log)
            doubled = [each for each, count in counts.items() if count > 1 and client_of(each) in trial.exact]
            if doubled:
                yield _violation("G4 once, in order", f"{side} {partition}", "doubled", doubled)
            newest: dict[str, int] = {}
            behind = []
            for record in log:
                client, number = client_of(record.id), _number(record.id)
                if client in trial.exact and counts[record.id] == 1:
                    if number < newest.get(client, -1):
                        behind.append(f"{record.id} at {record.offset}")
                    newest[client] = max(number, newest.get(client, -1))
            if behind:
                yield _violation("G4 once, in order", f"{side} {partition}", "behind what was sent later", behind)


def g5_aborted(trial: Trial) -> Iterator[Violation]:
    """What was aborted is seen nowhere."""
    for side, logs in (("source", trial.source), ("target", trial.target)):
        for partition, log in logs.items():
            seen = [f"{each.id} at {each.offset}" for each in log if each.is_visible and each.id in trial.aborted]
            if seen:
                yield _violation("G5 aborted", f"{side} {partition}", "aborted, as its client was told, and seen", seen)


def g6_own_answers(trial: Trial) -> Iterator[Violation]:
    """At the offset that an answer names stands what it answers, at the source, and what was committed is seen."""
    standing = {partition: {record.offset: record for record in log} for partition, log in trial.source.items()}
    found: dict[str, list[str]] = defaultdict(list)
    for each in trial.answered:
        for partition, offset, identity in each.records:
            record = standing.get(partition, {}).get(offset)
            if record is None or record.id != identity or not record.is_visible:
                stands = "nothing" if record is None else record.id
                found[each.client].append(f"{identity} at {partition}:{offset}, where {stands} stands")
    for client, shown in found.items():
        yield _violation("G6 own answers", client, "told of an offset where another record stands", shown)


def g7_own_ids(trial: Trial) -> Iterator[Violation]:
    """Nobody writes under an id that the other cluster may give to somebody else."""
    plain = sorted(each for each in trial.producers if each < _CLUSTER_IDS_END)
    if plain:
        yield _violation("G7 own ids", "source", "producers have ids that are not marked", plain)


def _placed(trial: Trial) -> Trial:
    """With the offsets of records that were acknowledged without one (below 0), as a batch is that the source had
    already: they stand in its log.
    """
    standing = {(partition, each.id): each.offset for partition, log in trial.source.items() for each in log}
    answered = tuple(
        replace(
            each,
            records=tuple(
                (partition, offset if offset >= 0 else standing.get((partition, identity), UNKNOWN), identity)
                for partition, offset, identity in each.records
            ),
        )
        for each in trial.answered
    )
    return replace(trial, answered=answered)


def client_of(identity: str) -> str:
    """Who sent a record: everything before its last number, and before the partition where it has one."""
    return identity.split(".", 1)[0]


def _number(identity: str) -> int:
    return int(identity.rpartition(".")[2])


def _violation(law: str, where: str, message: str, shown: Sequence[Any]) -> Violation:
    return Violation(
        invariant=law, where=where, message=f"{message} ({len(shown)} times)", witnesses=tuple(shown[:_SHOWN])
    )


def words_of(events: Iterable[Event]) -> list[Word]:
    """What gateways said, out of a history."""
    found: list[Word] = []
    open_ones: dict[str, Event] = {}
    for event in events:
        if event["kind"] != "word":
            continue
        before = open_ones.pop(event["key"], None)
        if before is not None:
            found.append(_word(before, event["heard"]))
        if event["state"] is not None:
            open_ones[event["key"]] = event
    return [*found, *(_word(each, float("inf")) for each in open_ones.values())]


def _word(event: Event, end: float) -> Word:
    lets_go = {partition: offset for _, partition, offset in event["lets_go"]}
    begin = max(event["written"], event["absent"])
    return Word(key=event["key"], begin=begin, end=end, is_out=event["state"] == OUT, lets_go=lets_go)


def answers_of(client: str, events: Iterable[Event]) -> tuple[list[Answered], list[Committed], set[str]]:
    """What a client was told: of records, of positions, and of which records that their transaction was aborted."""
    answered, committed, aborted = list[Answered](), list[Committed](), set[str]()
    for event in events:
        kind = event["kind"]
        if kind in ("ack", "commit"):
            records = event["records"] if kind == "commit" else [(event["partition"], event["offset"], event["id"])]
            answered.append(
                Answered(
                    client=client,
                    records=tuple((partition, offset, identity) for partition, offset, identity in records),
                    sent=event["sent"],
                    at=event["at"],
                    asked=event["asked"] if "asked" in event else event["at"],
                    highs=_by_partition(event.get("highs") or {}),
                    is_commit=kind == "commit",
                )
            )
        if event.get("positions"):
            there = event.get("there")
            committed.append(
                Committed(
                    client=client,
                    positions=_by_partition(event["positions"]),
                    sent=event["sent"],
                    at=event["at"],
                    asked=event["positions_asked"],
                    told=event["positions_told"],
                    there=None if there is None else _by_partition(there),
                )
            )
        if kind == "abort":
            aborted.update(event["ids"])
    return answered, committed, aborted


def _by_partition(found: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in found.items()}
