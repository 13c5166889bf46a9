"""The result: a row for each topic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from demo.topics import LATEST, LIVE, TOPICS
from isthmus.cli.output import OutputFormat, Row, render
from isthmus.cli.tables.columns import Cells, Column
from isthmus.model.links.progress import LinkProgress
from isthmus.spark.compare.links import DiscrepancyKind, TopicVerdict, Verdict

_MIB: Final = 1 << 20


class Speeds:
    """How fast each topic was copied: from the last look that saw nothing to the first that saw no lag."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._done: dict[str, float] = {}

    def see(self, links: Sequence[LinkProgress]) -> None:
        """Take note of how far the topics are."""
        now = time.monotonic()
        for topic in (topic for link in links for topic in link.topics):
            if not any(partition.target_end > 0 for partition in topic.partitions):
                self._begun[topic.topic] = now
            elif topic.lag_records == 0:
                self._done.setdefault(topic.topic, now)

    def records_per_s(self, topic: str, records: int) -> int | None:
        """Its records over the time their copying took; `None` where that was not seen."""
        if topic not in self._begun or topic not in self._done:
            return None
        return round(records / (self._done[topic] - self._begun[topic]))


def show(verdict: Verdict, speeds: Speeds, latencies_ms: Mapping[str, float | None], seen: Mapping[str, bool]) -> None:
    """Print the table on stdout. `seen` tells of topics whether independent consumers saw the same on both sides."""
    verdicts = {str(topic.source_topic): topic for topic in verdict.topics}
    records = {name: topic.records for name, topic in verdicts.items()}
    rows: list[Row] = [
        {
            "topic": topic.name,
            "kind": topic.kind,
            "records": records[topic.name],
            "MiB": round(verdicts[topic.name].size_bytes / _MIB, 1),
            # Nothing is told of the live topic, which its producer paces, and of the compacted one, most of whose
            # offsets hold no record.
            **({} if topic in (LIVE, LATEST) else {"records/s": speeds.records_per_s(topic.name, records[topic.name])}),
            **(latencies_ms if topic is LIVE else {}),
            "verdict": _verdict(verdicts[topic.name], seen.get(topic.name)),
        }
        for topic in TOPICS
    ]
    columns = (
        Column("topic", Cells.NAME),
        Column("kind", Cells.PROSE, gives_way=2),
        Column("records", Cells.NUMBER),
        Column("MiB", Cells.NUMBER, gives_way=3),
        Column("records/s", Cells.NUMBER),
        *(Column(name, Cells.NUMBER, gives_way=1) for name in latencies_ms),
        Column("verdict", Cells.PROSE),
    )
    render(rows, OutputFormat.TABLE, columns=columns, wider="a wider screen")


def _verdict(topic: TopicVerdict, seen: bool | None) -> str:
    """What both judges say: the Spark job, and for some topics independent consumers."""
    if not topic.is_equal:
        counts = [f"{topic.count(kind):,} {kind}" for kind in DiscrepancyKind if topic.count(kind)]
        return f"NOT EQUAL: {topic.problem or ', '.join(counts)}"
    if seen is False:
        return "NOT EQUAL for other consumers"
    return "equal"
