"""The result of a verification: plain values, from one finding up to the whole."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.text.plain import Flat, PlainValue, computed_field
from isthmus.model.text.shown import ShortTable, ShownAsTable, Tone
from isthmus.model.text.wording import format_count, format_topic

_FINDINGS_SHOWN: Final = 5
_COLUMNS: Final = (
    "link",
    "topic",
    "verdict",
    "records",
    "missing",
    "extra",
    "different",
    "lag",
    "waiting",
    "not_compared",
    "problem",
)
_TONES: Final = {
    "equal": Tone.GOOD,
    "different": Tone.BAD,
    "waiting": Tone.DOUBTFUL,
    "not compared": Tone.DOUBTFUL,
}


class DiscrepancyKind(enum.StrEnum):
    """How records of the two logs fail to be equal at an offset."""

    MISSING = "missing"
    """The source has a record there, the target has none."""
    EXTRA = "extra"
    """The target has a record there, the source has none."""
    DIFFERENT = "different"
    """Both have one, but consumers see different records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """Records of one kind within the offsets `[offset_begin, offset_end)`.

    `fields` names what differs in the first record, for a few findings of the kind DIFFERENT: `key`, `value`,
    `headers`, `timestamp`, or `visibility` (only one of the two is seen by consumers at read_committed).
    `target_offset` is where the first record went, for mapped topics: `None` if it is in no range of the map.
    """

    kind: DiscrepancyKind
    offset_begin: int
    offset_end: int
    records: int
    fields: tuple[str, ...] = ()
    target_offset: int | None = None

    def __str__(self) -> str:
        where = _offsets_in_words(self.offset_begin, self.offset_end)
        where += "" if self.target_offset is None else f", at the target {self.target_offset}"
        what = f" ({', '.join(self.fields)})" if self.fields else ""
        return f"{self.kind} at {where}{what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """The source's offsets `[offset_begin, offset_end)`, which could not be compared, and the `reason`."""

    offset_begin: int
    offset_end: int
    reason: str

    def __str__(self) -> str:
        return f"not comparable at {_offsets_in_words(self.offset_begin, self.offset_end)}: {self.reason}"


def _offsets_in_words(begin: int, end: int) -> str:
    return f"offset {begin}" if end - begin == 1 else f"offsets {begin} to {end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """The comparison of one partition over the offsets `[offset_begin, offset_end)`.

    `records` and `size_bytes` are the source's in that range. `lag` counts the offsets from its end to the source's
    last stable offset that were left out because lag is allowed. `waiting` counts those behind it, which wait for an
    open transaction and could not be compared, unless lag is allowed. `cleaned` counts records that only one side has
    since each side's log cleaner works on its own: a later record of the same key makes them obsolete. `left_out`
    counts aborted records that the target lacks and may lack. `foreign` counts offsets of a mapped partition at the
    target that its map does not know: what others wrote there, which is not judged. `findings` are the first of each
    kind; the counts are of all records.

    Of records that a transform changes `filtered` counts those that it leaves out, and `skipped` those on which it
    fails and that are left out for it (`on_error`): the target lacks both, as it should. `not_compared` counts offsets
    that could not be compared, as it is not known what should have become of them; `uncompared` are the first.
    """

    partition: int
    offset_begin: int
    offset_end: int
    records: int
    size_bytes: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    cleaned: int = 0
    left_out: int = 0
    lag: int = 0
    foreign: int = 0
    waiting: int = 0
    findings: tuple[Discrepancy, ...] = ()
    filtered: int = 0
    skipped: int = 0
    not_compared: int = 0
    uncompared: tuple[NotCompared, ...] = ()

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.different or self.waiting or self.not_compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicVerdict:
    """The comparison of one topic. `problem` states the fault of the topic as a whole, in one sentence.

    Where `offsets` are mapped, records are compared with those that the map of their partition names. If they are
    changed on their way, `hint` says what may be behind findings.
    """

    source_topic: SourceTopic
    target_topic: TargetTopic
    partitions: tuple[PartitionVerdict, ...]
    problem: str = ""
    offsets: OffsetPolicy = OffsetPolicy.SAME
    hint: str = ""

    @property
    def is_equal(self) -> bool:
        return not self.problem and all(partition.is_equal for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def cleaned(self) -> int:
        return sum(partition.cleaned for partition in self.partitions)

    @property
    def left_out(self) -> int:
        return sum(partition.left_out for partition in self.partitions)

    @property
    def foreign(self) -> int:
        return sum(partition.foreign for partition in self.partitions)

    @property
    def waiting(self) -> int:
        return sum(partition.waiting for partition in self.partitions)

    @property
    def filtered(self) -> int:
        return sum(partition.filtered for partition in self.partitions)

    @property
    def skipped(self) -> int:
        return sum(partition.skipped for partition in self.partitions)

    @property
    def not_compared(self) -> int:
        return sum(partition.not_compared for partition in self.partitions)

    @property
    def differs(self) -> bool:
        """Whether a difference was found: not only records that could not be compared."""
        return bool(self.problem or self.missing or self.extra or self.different)

    @property
    def missing(self) -> int:
        return self.count(DiscrepancyKind.MISSING)

    @property
    def extra(self) -> int:
        return self.count(DiscrepancyKind.EXTRA)

    @property
    def different(self) -> int:
        return self.count(DiscrepancyKind.DIFFERENT)

    def count(self, kind: DiscrepancyKind) -> int:
        """Return the number of records of this kind."""
        return sum(getattr(partition, kind.value) for partition in self.partitions)

    @property
    def word(self) -> str:
        """The verdict in one word."""
        if self.is_equal or self.differs:
            return "equal" if self.is_equal else "different"
        return "not compared" if self.not_compared else "waiting"

    @property
    def findings(self) -> list[str]:
        """What is wrong, in sentences: the first ones, and how many more there are."""
        found = [
            f"{self.source_topic}-{partition.partition}: {finding}"
            for partition in self.partitions
            for finding in (*partition.findings, *partition.uncompared)
        ]
        return [*filter(None, [self.problem]), *first_findings(found), *filter(None, [self.hint])]

    def row(self, link: str) -> dict[str, object]:
        """Return its row in a table."""
        return {
            "link": link,
            "topic": format_topic(self.source_topic, self.target_topic),
            "offsets": str(self.offsets),
            "verdict": self.word,
            "records": self.records,
            "missing": self.missing,
            "extra": self.extra,
            "different": self.different,
            "cleaned": self.cleaned,
            "left_out": self.left_out,
            "foreign": self.foreign,
            "filtered": self.filtered,
            "skipped": self.skipped,
            "lag": self.lag,
            "waiting": self.waiting,
            "not_compared": self.not_compared,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(PlainValue, ShownAsTable):
    """What became of a verification.

    `read_bytes` is the size that was read of both logs, `elapsed_s` how long it took.

    `aborted` is the link's treatment of aborted records, `copy` or `omit`, if it is known.
    """

    source: str
    target: str
    topics: tuple[TopicVerdict, ...]
    read_bytes: int = 0
    elapsed_s: float = 0.0
    aborted: str = ""

    @computed_field(before="source")
    def equal(self) -> bool:
        """Whether every record is at the same offset, or where its map has it, with the same content and visibility.

        If some records could not be compared, that is unknown: they wait for an open transaction, or were made by a
        transform that is not known any more. Aborted records that are left out make no difference, nor do those that a
        transform leaves out.
        """
        return all(topic.is_equal for topic in self.topics)

    @property
    def differs(self) -> bool:
        """Whether something was found to differ."""
        return any(topic.differs for topic in self.topics)

    @property
    def waiting(self) -> int:
        """Offsets of the source that could not be compared, as they wait for an open transaction."""
        return sum(topic.waiting for topic in self.topics)

    @property
    def not_compared(self) -> int:
        """Offsets of the source that could not be compared, as it is not known what a transform should have made."""
        return sum(topic.not_compared for topic in self.topics)

    @computed_field(before="source")
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def outcome(self) -> str:
        """Whether both clusters hold the same, in words."""
        words = "DIFFER" if self.differs else "hold the same"
        waiting = f", but for {format_count(self.waiting, 'offset')} in open transactions" if self.waiting else ""
        unknown = f"; {format_count(self.not_compared, 'offset')} could not be compared" if self.not_compared else ""
        return f"{self.source} and {self.target} {words}{waiting}{unknown}"

    def short_table(self) -> ShortTable:
        return _table([("", self)])


class Verdicts(ShownAsTable, dict[str, Verdict]):
    """The verdict of each link, by its name."""

    __slots__ = ()

    def short_table(self) -> ShortTable:
        return _table(self.items())


def first_findings(found: Sequence[str]) -> list[str]:
    """Return as many as fit a table, and how many more there are."""
    more = [f"and {len(found) - _FINDINGS_SHOWN:,} more"] if len(found) > _FINDINGS_SHOWN else []
    return [*found[:_FINDINGS_SHOWN], *more]


def _table(verdicts: Iterable[tuple[str, Verdict]]) -> ShortTable:
    listed = list(verdicts)
    outcomes = [
        f"{link}: {verdict.outcome}: {format_count(verdict.records, 'record')} compared".removeprefix(": ")
        for link, verdict in listed
    ]
    return ShortTable(
        title="; ".join(outcomes) or "no link was compared",
        columns=_COLUMNS,
        rows=tuple(
            {**topic.row(link), "problem": "; ".join(topic.findings)}
            for link, verdict in listed
            for topic in verdict.topics
        ),
        tones=_TONES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkVerdict:
    """The result of the verification of a link."""

    link: str
    verdict: Flat[Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether both sides of a link are equal, and where they are not."""

    equal: bool
    verdicts: Sequence[LinkVerdict]
