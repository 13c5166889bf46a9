"""`isthmus provenance`: the origins of a topic's records."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.fabric.fabric import Fabric
from isthmus.model.text.plain import plain

app = typer.Typer(add_completion=False)

_COLUMNS: Final = (
    Column("cluster", Cells.NAME),
    Column("partition"),
    Column("offset_begin", Cells.NUMBER),
    Column("offset_end"),
    Column("offsets", gives_way=3),
    Column("source_cluster", Cells.NAME),
    Column("source_topic", Cells.NAME),
    Column("link", Cells.NAME),
    Column("verb"),
    Column("missing", gives_way=4),
    Column("ends_within", gives_way=5),
    Column("transforms", gives_way=6),
    Column("at", gives_way=1),
    Column("by", gives_way=2),
)


@app.command()
def provenance(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic of any cluster of the file.")],
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show which offsets of a topic came from which cluster by which link, and how that ended.

    With mapped offsets records of others may lie between those that came; the ids of transforms that changed them
    on the way are named. Offsets that no line covers were written on
    the cluster itself, or by a link that its ledger no longer has. Exits with 1 if a cluster does not answer.
    """
    report = Fabric(load_configuration(path)).provenance(topic)
    found, problems = report.origins, report.away
    if output.is_table:
        rows = [
            {
                **plain(each),
                "partition": "all" if each.partition < 0 else str(each.partition),
                "offset_end": each.end_in_words,
                "missing": each.missing_in_words,
                "ends_within": each.transactions_in_words,
                "transforms": "; ".join(map(str, each.transforms)),
            }
            for each in found
        ]
        render([{column.name: row[column.name] for column in _COLUMNS} for row in rows], output, columns=_COLUMNS)
        if not found and not problems:
            console.print(Text(printable(f"no ledger knows topic {topic} as a copy")))
    else:
        render([plain(each) for each in found], output, names=[each.link for each in found])
    for alias, problem in problems.items():
        console.print(Text(printable(f"{alias}: {problem.in_full}"), style="yellow"))
    if problems:
        raise typer.Exit(1)
