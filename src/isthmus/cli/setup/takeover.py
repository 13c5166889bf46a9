"""The part of `isthmus import` that takes over the records that MirrorMaker 2 has copied: confirmed, shown while it
runs, and reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.steps import Moving
from isthmus.cli.tables.columns import Cells, Column
from isthmus.config.reading.places import DEFAULT_NAME
from isthmus.errors import ConfigError
from isthmus.fabric.answers import LinkTakeover, Outcome, PartitionTakeover, TakeoverSettings, TopicTakeover
from isthmus.fabric.fabric import Fabric
from isthmus.interop.deployment import Deployment
from isthmus.interop.drafting import Draft
from isthmus.interop.files import write_all
from isthmus.interop.predecessors import copying_flows, predecessor_of
from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count, format_topic

TakeOverOption = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Have the links go on where MirrorMaker 2 has stopped: nothing is copied twice, nothing is lost. "
        "If the file named by --to is there, it is used as it is.",
    ),
]
QuietOption = Annotated[
    str, typer.Option("--quiet", help="For how long nothing may move before MirrorMaker 2 counts as stopped.")
]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", help="How long MirrorMaker 2 and its open transactions are waited for to end.")
]
WholeOption = Annotated[
    bool, typer.Option("--whole", help="Compare all records of the target, not only the last ones.")
]
AllowForeignOption = Annotated[
    bool, typer.Option("--allow-foreign", help="Pass over records at the target that the source does not have.")
]
OffsetsTopicOption = Annotated[
    str | None,
    typer.Option(
        "--offsets-topic",
        metavar="TOPIC",
        help="The topic in which MirrorMaker 2 keeps its positions, unless the file has it.",
        show_default=False,
    ),
]
WorkersGroupOption = Annotated[
    str | None,
    typer.Option(
        "--workers-group",
        metavar="GROUP",
        help="The group of MirrorMaker 2's workers, unless the file has it. If it is empty, workers may go on, as "
        "they run other connectors too: then see that MirrorMaker 2's are deleted.",
        show_default=False,
    ),
]
COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition", Cells.NUMBER),
    Column("outcome"),
    Column("committed", Cells.NUMBER),
    Column("compared_from", Cells.NUMBER, gives_way=1),
    Column("beyond", Cells.NUMBER),
    Column("doubled", Cells.NUMBER),
    Column("begin", Cells.NUMBER),
    Column("why", Cells.PROSE),
)


def take_over_all(
    deployment: Deployment,
    configuration: Configuration,
    settings: TakeoverSettings,
    offsets_topic: str | None,
    workers_group: str | None,
) -> list[LinkTakeover]:
    """Take over every flow of a deployment that has a link in the configuration.

    :raises ConfigError: It has none for any, or the file does not say where positions are kept.
    :raises GateNotMet: MirrorMaker 2 has not stopped.
    :raises PlanRefused: A link is run, or there are no positions.
    :raises ClusterError: A cluster did not answer.
    """
    flows = copying_flows(deployment)
    chosen = [
        (link, flow)
        for flow in flows
        for link in configuration.links
        if (link.source.alias, link.target.alias) == (flow.source, flow.target)
    ]
    if not chosen:
        raise ConfigError(
            f"the configuration has no link for any flow of {deployment.name}",
            hint="A link takes the flow over that has the same source and target, by their aliases.",
        )
    predecessors = [(link, predecessor_of(deployment, flow, offsets_topic, workers_group)) for link, flow in chosen]
    found = []
    for link, predecessor in predecessors:
        with TakeoverLine(link.name) as line:
            one = Fabric(configuration).link(link.name)
            found.append(one.take_over(predecessor, settings, line.show))
    return found


@contextmanager
def load_draft(draft: Draft, written: Path | None) -> Iterator[Configuration]:
    """Load the configuration that was written, or the draft of it, whose files exist while the block runs.

    :raises ConfigError: It cannot be used.
    """
    if written is not None:
        yield config.load(written)
        return
    # Secrets are in files beside it, which have to be removed again.
    with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:
        path = Path(folder) / DEFAULT_NAME
        write_all(draft.text, draft.companions, path, force=False)
        try:
            configuration = config.load(path)
        except ConfigError as error:
            raise ConfigError(
                error.message.replace(f"{folder}/", ""), field=error.field, line=error.line, hint=error.hint
            ) from None
        yield configuration


class TakeoverLine(Moving):
    """Show the current step while it is entered: in place on a terminal, otherwise a line for each step. On stderr."""

    def __init__(self, link: str) -> None:
        self._link = link
        super().__init__(f"{link}: looking")
        self._told = ""

    def show(self, what: str, records: int) -> None:
        """Show a step, and how many records of the target were compared so far."""
        step = what.split()[0]
        compared = f", {format_count(records, 'record')} compared" if records else ""
        self._move(f"{self._link}: {what}", detail=compared, is_step=step != self._told)
        self._told = step


def as_dicts(found: Sequence[LinkTakeover]) -> list[dict[str, Any]]:
    """Return the results for programs."""
    return [plain(each) for each in found]


def show(found: Sequence[LinkTakeover]) -> None:
    """Show the results as a table, with a line for each link."""
    rows = [row for each in found for topic in each.topics for row in _rows(each, topic)]
    if rows:
        render(rows, OutputFormat.TABLE, columns=COLUMNS)
    for each in found:
        console.print(Text(printable(_summary(each))))


def _rows(link: LinkTakeover, topic: TopicTakeover) -> list[Row]:
    name = format_topic(topic.source_topic, topic.topic)
    base: Row = {"link": link.link, "topic": name}
    if not topic.partitions:
        rest: Row = dict.fromkeys([column.name for column in COLUMNS[2:]], "-")
        why = "-" if topic.problem is None else topic.problem.in_full
        return [{**base, **rest, "outcome": str(topic.outcome), "why": why}]
    return [{**base, **_row(each)} for each in topic.partitions]


def _row(each: PartitionTakeover) -> Row:
    fields = plain(each)
    shown = {column.name: fields[column.name] for column in COLUMNS[2:-1]}
    why = [each.problem.message] if each.problem is not None else []
    if each.gap is not None:
        why.append(f"the source deleted [{each.gap.offset_begin}, {each.gap.offset_end}) before it was copied")
    if each.found is not None and each.found.repeated_to >= 0:
        why.append(
            f"MirrorMaker 2 was stopped while it repeated older records: the target's last record is that before "
            f"source offset {each.found.repeated_to}"
        )
    if each.found is not None and each.found.aborted:
        why.append(f"{format_count(each.found.aborted, 'record')} of aborted transactions copied")
    if each.problem is None and each.found is not None and each.found.foreign:
        why.append(f"{format_count(each.found.foreign, 'record')} of others passed over")
    told = Problem("; ".join(why) or "-", "" if each.problem is None else each.problem.hint)
    return {**{key: "-" if value is None else value for key, value in shown.items()}, "why": told.in_full}


def _summary(each: LinkTakeover) -> str:
    counts = {outcome: sum(topic.outcome is outcome for topic in each.topics) for outcome in Outcome}
    parts = [f"{format_count(count, 'topic')} {outcome}" for outcome, count in counts.items() if count]
    found = (
        f"{format_count(each.beyond, 'record')} behind the positions of {each.offsets_topic} found at the "
        f"target, {format_count(each.doubled, 'record')} there once more"
    )
    written = "" if each.is_written else "; nothing was written"
    left = f"; not selected by the link: {', '.join(each.unselected)}" if each.unselected else ""
    gone = f"; not at the source any more: {', '.join(each.gone)}" if each.gone else ""
    return f"{each.link}: {', '.join(parts) or 'no topic to take over'}; {found}{left}{gone}{written}"
