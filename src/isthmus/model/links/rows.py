"""Rows of links, topics and partitions, for people's tables and for DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.links.totals import totals
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import AGED_S, LinkState
from isthmus.model.text.elapsed import ago
from isthmus.model.text.plain import PlainValue, null_if_negative, plain, tenths, thousandths
from isthmus.model.text.shown import ShortTable, Tone

NOW: Final = ago(0.0)
TONES: Final[Mapping[str, Tone]] = {
    **{str(state): Tone.BAD if state.is_terminal else Tone.DOUBTFUL for state in LaneState if not state.is_calm},
    str(LinkState.ACTIVE): Tone.GOOD,
    str(LinkState.IMPAIRED): Tone.DOUBTFUL,
    str(LinkState.UNAVAILABLE): Tone.BAD,
}
"""The colours of states: links and lanes share words."""
_Number = Annotated[int | None, null_if_negative]
_KEYS: Final = (
    "topic",
    "name",
    "hops",
    "partition",
    "state",
    "source_end",
    "target_end",
    "lag_records",
    "lag_seconds",
    "records_per_second",
)
_COLUMNS: Final = ("link", "topic", "state", "lag_records", "lag_seconds", "as_of", "problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow(PlainValue):
    """One partition that a link mirrors, for queries; unknown values are null.

    A topic without partitions has a row with its own state and problem, and a link without topics has one too: what
    they lack is null. `state` is that of the partition, else of the topic, and null for a link; `lost_offsets` are
    those that the source deleted before they were copied.
    """

    link: str
    source: str
    target: str
    link_state: LinkState
    topic: TargetTopic | None = None
    source_topic: SourceTopic | None = None
    partition: int | None = None
    state: LaneState | None = None
    state_age_s: Annotated[float | None, "state_age_seconds", tenths] = None
    offsets: Literal["same", "mapped"] | None = None
    source_end: _Number = None
    target_end: _Number = None
    copied_end: _Number = None
    lag_records: _Number = None
    lag_s: Annotated[float | None, "lag_seconds", thousandths] = None
    waiting_records: _Number = None
    waiting_s: Annotated[float | None, "waiting_seconds", tenths] = None
    records_per_s: Annotated[float | None, "records_per_second", tenths] = None
    lost_offsets: int | None = None
    problem_code: str | None = None
    problem: str | None = None
    hint: str | None = None


def partition_rows(links: Iterable[LinkProgress]) -> Iterator[PartitionRow]:
    """Yield a row for each partition of the links, and for topics and links that have none."""
    for link in links:
        if not link.topics:
            yield PartitionRow(**_of_link(link), **_of_problem(link.problem))
        for topic in link.topics:
            shared = {**_of_link(link), "topic": topic.topic, "source_topic": topic.source_topic}
            if not topic.partitions:
                yield PartitionRow(**shared, state=topic.state, **_of_problem(topic.problem))
            for each in topic.partitions:
                yield _partition_row(shared, each)


def _partition_row(shared: Mapping[str, Any], each: PartitionProgress) -> PartitionRow:
    return PartitionRow(
        **shared,
        partition=each.partition,
        state=each.state,
        state_age_s=each.state_age_s,
        offsets="same" if each.copied_end is None else "mapped",
        source_end=each.source_end,
        target_end=each.target_end,
        copied_end=each.copied_end,
        lag_records=each.lag_records,
        lag_s=each.lag_s,
        waiting_records=each.waiting_records,
        waiting_s=each.waiting_s,
        records_per_s=each.records_per_s,
        lost_offsets=sum(gap.offset_end - gap.offset_begin for gap in each.gaps),
        **_of_problem(each.problem),
    )


def _of_link(link: LinkProgress) -> dict[str, Any]:
    return {"link": link.link, "source": link.source, "target": link.target, "link_state": link.state}


def _of_problem(problem: Problem | None) -> dict[str, Any]:
    if problem is None:
        return {}
    return {"problem_code": problem.code or None, "problem": problem.message, "hint": problem.hint or None}


def progress_row(link: LinkProgress, item: TopicProgress | PartitionProgress | None) -> dict[str, object]:
    """Return the row of a topic or a partition for people, or of a link that has none."""
    aborted = "" if link.aborted is None else str(link.aborted)
    if item is not None:
        return {"link": link.link, **_shared_columns(item), "aborted": aborted}
    lag = plain(link)["lag_records"]
    return {"link": link.link, "state": str(link.state), "lag_records": lag, "as_of": NOW, "aborted": aborted}


def _shared_columns(item: TopicProgress | PartitionProgress) -> dict[str, object]:
    fields: Mapping[str, object] = plain(item)
    row = {name: fields[name] for name in _KEYS if name in fields}
    if row.get("hops") is None:
        # Names do not show it, which is not the same as unknown.
        row.pop("hops", None)
    as_of = ago(item.age_s) if item.age_s > AGED_S else NOW
    return {**row, "as_of": as_of, **({"problem": item.problem.message} if item.problem else {})}


def progress_table(links: Sequence[LinkProgress]) -> ShortTable:
    """Return a short table with a row for each topic, and for each link that has none."""
    rows = [row for link in links for row in _short_rows(link)]
    is_fresh = all(row["as_of"] == NOW for row in rows)
    is_timed = any(row.get("lag_seconds") is not None for row in rows)
    silent = {"as_of"} if is_fresh else set()
    silent |= set() if is_timed else {"lag_seconds"}
    columns = tuple(name for name in _COLUMNS if name not in silent)
    return ShortTable(title="; ".join(totals(links)), columns=columns, rows=tuple(rows), tones=TONES)


def _short_rows(link: LinkProgress) -> Iterator[dict[str, object]]:
    if not link.topics or link.problem is not None:
        yield {**progress_row(link, None), **({"problem": link.problem.message} if link.problem else {})}
    for topic in link.topics:
        yield progress_row(link, topic)


def outcome_rows(links: Iterable[LinkProgress]) -> Iterator[dict[str, object]]:
    """Yield a row for each topic after a run; a link that did not come so far has one of its own."""
    for link in links:
        if not link.topics:
            problem = link.problem.message if link.problem else ""
            yield {"link": link.link, "topic": "", "state": str(link.state), "problem": problem}
        for topic in link.topics:
            yield {
                "link": link.link,
                "topic": topic.topic,
                "partitions": len(topic.partitions),
                "state": str(topic.state),
                "records": topic.records,
                "lag_records": topic.lag_records if topic.lag_records >= 0 else None,
                "problem": topic.problem.message if topic.problem else "",
            }
