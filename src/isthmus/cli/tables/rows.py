"""Rows of topics and partitions as `isthmus status` shows them, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isthmus.cli.output import Row
from isthmus.cli.tables.columns import Cells, Column, with_names
from isthmus.cli.tables.view import Shown, View
from isthmus.model.lane import LaneKey
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.rows import NOW, progress_row
from isthmus.model.loop import LoopProgress
from isthmus.model.process.leases import LeaseProgress, describe_partitions
from isthmus.model.state import AGED_S
from isthmus.model.text.elapsed import ago

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("name", Cells.NAME, gives_way=7),
    Column("hops", Cells.NUMBER, gives_way=8),
    Column("partition"),
    Column("state"),
    Column("source_end", Cells.NUMBER, gives_way=2),
    Column("target_end", Cells.NUMBER, gives_way=3),
    Column("lag_records", Cells.NUMBER),
    Column("lag_seconds", Cells.NUMBER, gives_way=1),
    Column("records_per_second", Cells.NUMBER, gives_way=4),
    Column("as_of"),
    Column("aborted", gives_way=6),
    Column("problem", Cells.PROSE, gives_way=5),
)

TASK_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("task", Cells.NAME),
    Column("state"),
    Column("as_of", gives_way=2),
    Column("problem", Cells.PROSE, gives_way=1),
)

LEASE_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("lease"),
    Column("executor"),
    Column("host", Cells.NAME),
    Column("pid", gives_way=3, is_wide=True),
    Column("busy"),
    Column("records_per_second", Cells.NUMBER),
    Column("partitions", Cells.NUMBER),
    Column("as_of", gives_way=2),
    Column("lanes", Cells.PROSE, gives_way=1),
)
PLACED_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("lease"),
    Column("executor"),
    Column("host", Cells.NAME),
)


def status_rows(links: Sequence[LinkProgress], *, by_partition: bool, view: View | None = None) -> list[Row]:
    """Return a row for each topic or each partition; links without any have one of their own. In
    the order of the view.
    """
    return [status_row(each) for each in (view or View()).items(links, by_partition=by_partition)]


def status_row(shown: Shown) -> Row:
    """Return the row of a topic or a partition, or of a link that has none."""
    return progress_row(*shown)


def task_row(link: str, task: LoopProgress) -> Row:
    """Return the row of a task of a link, with its last error."""
    as_of = ago(task.age_s) if task.age_s > AGED_S else NOW
    found = {"link": link, "task": task.loop, "state": str(task.state), "as_of": as_of}
    return {**found, "problem": task.problem.message} if task.problem else found


def lease_row(link: str, lease: LeaseProgress) -> Row:
    """Return the row of a lease of a link."""
    age_s = lease.age_s
    return {
        "link": link,
        **_place_row(lease),
        "pid": lease.pid or None,
        "busy": "" if lease.busy is None else f"{lease.busy:.0%}",
        "records_per_second": lease.records_per_s,
        "partitions": len(lease.partitions),
        "as_of": "" if age_s is None else ago(age_s) if age_s > AGED_S else NOW,
        "lanes": describe_partitions(lease.partitions),
    }


def placed_row(link: str, lease: LeaseProgress, key: LaneKey) -> Row:
    """Return the row of a partition, and of where it is."""
    return {"link": link, "topic": key.topic, "partition": key.partition, **_place_row(lease)}


def _place_row(lease: LeaseProgress) -> Row:
    return {"lease": lease.name, "executor": lease.executor, "host": lease.host}


def progress_names(links: Sequence[LinkProgress], *, by_partition: bool = False) -> list[str]:
    """Return the names of the rows for `-o name`, as `isthmus wait` takes them: `link/topic`, `link` where it has none.

    Partitions are `link/topic-partition`.
    """
    names = []
    for link in links:
        for topic in link.topics:
            whole = f"{link.link}/{topic.topic}"
            is_split = by_partition and topic.partitions
            names += [f"{whole}-{each.partition}" for each in topic.partitions] if is_split else [whole]
        if not link.topics:
            names.append(link.link)
    return names


def status_columns(rows: Sequence[Row], *, by_partition: bool) -> list[Column]:
    """Return the useful columns for these rows: the ages only if one is old."""
    silent = {"partition"} if not by_partition else set()
    if not any("hops" in row for row in rows):
        silent.add("hops")
    if all(row["as_of"] == NOW for row in rows):
        silent.add("as_of")
    return with_names([column for column in _COLUMNS if column.name not in silent], rows, "topic")
