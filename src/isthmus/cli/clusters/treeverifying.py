"""`isthmus tree verify`: prove that every record of a tree is once on each cluster, or report where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.links.verify import DIFFERENCE_FOUND, Watcher
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.fabric.fabric import Fabric
from isthmus.model.links.verdict import first_findings
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

if TYPE_CHECKING:
    from isthmus.model.trees.treeverdict import TreeTopicVerdict, TreeVerdict

_COUNTS: Final = ("records", "doubled", "out_of_order", "missing", "waiting", "deleted", "unjudged")
_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("verdict"),
    Column("records", Cells.NUMBER, gives_way=3),
    Column("doubled", Cells.NUMBER, gives_way=1),
    Column("out_of_order", Cells.NUMBER, gives_way=1),
    Column("missing", Cells.NUMBER, gives_way=1),
    Column("waiting", Cells.NUMBER, gives_way=2),
    Column("deleted", Cells.NUMBER, gives_way=4),
    Column("unjudged", Cells.NUMBER, gives_way=5),
    Column("findings", Cells.PROSE),
)


def verify(
    name: Annotated[str, typer.Argument(metavar="TREE", help="The tree.")],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic of the tree; may be repeated.")
    ] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Look on Spark whether every message of a tree is once on each cluster, in the order of its producer.

    All that consumers see on all clusters of the tree is read. Records that are still on their way are waiting, and no
    difference.
    isthmus verify compares the messages that each distributor had to copy.

    Exits with 4 when messages are doubled, out of order or missing.
    """
    with Fabric(load_with_declared(path)) as fabric, Watcher() as watcher:
        verdict = fabric.trees.verify(name, topics=topic or (), on_progress=watcher.show)
    show_verdict(verdict, output)
    if not verdict.equal:
        raise typer.Exit(DIFFERENCE_FOUND)


def show_verdict(verdict: TreeVerdict, output: OutputFormat) -> None:
    """Show the verdict on stdout; with a table, a closing line on stderr."""
    if not output.is_table:
        render(plain(verdict), output, names=[f"{verdict.tree}/{each.topic}" for each in verdict.topics])
        return
    rows = [
        {
            "topic": each.topic,
            "verdict": "right" if each.is_right else "wrong",
            **{what: each.count(what) for what in _COUNTS},
            "findings": "; ".join(_findings(each)),
        }
        for each in verdict.topics
    ]
    render(rows, output, columns=_COLUMNS)
    console.print(Text(printable(_describe_verdict(verdict)), style="green" if verdict.equal else "red"))


def _describe_verdict(verdict: TreeVerdict) -> str:
    outcome = "messages are once on every cluster, in their order" if verdict.equal else "messages are WRONG"
    notes = (
        (verdict.count("waiting"), "still on their way"),
        (verdict.count("deleted"), "deleted where they would be"),
        (verdict.count("unjudged"), "not judged, as no cluster retains their originals"),
    )
    parts = [f"{verdict.tree}: {outcome}: {format_count(verdict.count('local'), 'message')} came in"]
    parts += [f"{count:,} {note}" for count, note in notes if count]
    parts += [f"{', '.join(verdict.in_doubt)} in doubt"] if verdict.in_doubt else []
    read = (
        f"{format_count(verdict.count('records'), 'record')} of {format_count(len(verdict.clusters), 'cluster')} read"
    )
    return f"{', '.join(parts)}; {read} in {verdict.elapsed_s:.1f} s"


def _findings(topic: TreeTopicVerdict) -> list[str]:
    return first_findings(
        [
            f"{topic.topic}-{partition.partition} on {partition.cluster}: {finding}"
            for partition in topic.partitions
            for finding in partition.findings
        ]
    )
