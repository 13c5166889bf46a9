"""`isthmus quarantine`: records that were set aside, when a follower was recovered or because the transform of a link
failed for them: listed, shown and replayed.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_configuration, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.fabric.answers import QuarantineFilter
from isthmus.fabric.fabric import Fabric
from isthmus.model.links.recovery import SetAside
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

_Link = Annotated[str, typer.Argument(metavar="LINK", help="The link that set them aside.")]
_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, as at the source or as at the target.")]
_COLUMNS: Final = (
    Column("cluster", gives_way=2),
    Column("topic", Cells.NAME),
    Column("partition", Cells.NUMBER),
    Column("kind"),
    Column("link", Cells.NAME, gives_way=3),
    Column("producer", gives_way=4),
    Column("records", Cells.NUMBER),
    Column("replayed_records", Cells.NUMBER, gives_way=5),
    Column("offset_first", Cells.NUMBER),
    Column("offset_last", Cells.NUMBER),
    Column("topic_id", gives_way=1, is_wide=True),
    Column("quarantine", Cells.NAME, is_wide=True),
)
_SHOWN: Final = (
    Column("partition", Cells.NUMBER),
    Column("offset", Cells.NUMBER),
    Column("kind"),
    Column("reason", Cells.PROSE),
    Column("key", Cells.PROSE, gives_way=1),
    Column("value", Cells.PROSE, gives_way=2),
)
_REPLAYED: Final = (
    Column("partition", Cells.NUMBER),
    Column("written_records", Cells.NUMBER),
    Column("present_records", Cells.NUMBER),
    Column("left_out_records", Cells.NUMBER),
    Column("failed_records", Cells.NUMBER),
    Column("reason", Cells.PROSE, gives_way=1),
)


@app.callback()
def group() -> None:
    """Records that only the target had when isthmus link recover brought it back, and dead letters, for which the
    transform of a link failed: listed, shown, and replayed.
    """


@app.command("list")
def list_quarantine(
    link: Annotated[
        str | None, typer.Argument(metavar="LINK", help="The link that set them aside; without one all clusters.")
    ] = None,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only this topic of it.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show the records set aside at the target of a link, or at all clusters, also for links that are gone: how many
    records of which partition, why, and by which producer.

    "diverged" the source has not; "misplaced" it has at another offset, where the link copies them from; "expired" it
    had, and has deleted since. The records are in __isthmus.quarantine.TOPIC, for any consumer to read. A
    "dead-letter" is a record for which the transform of the link failed (docs/transforms.md), in
    __isthmus.dead-letters.LINK.TOPIC; its offsets are those of the source.
    """
    if link is None:
        found = Fabric(load_configuration(path)).quarantine()
    else:
        found = Fabric(load_with_declared(path, link)).link(link).quarantine(topic)
    rows = [plain(each) for each in found]
    if not output.is_table:
        render(rows, output, names=[each.quarantine for each in found])
        return
    if rows:
        render([{**row, "producer": row["producer"] or "none"} for row in rows], output, columns=_COLUMNS)
    else:
        what = "at any cluster" if link is None else f"of {f'link {link}' if topic is None else topic}"
        _tell(f"nothing was set aside {what}")


@app.command()
def show(
    link: _Link,
    topic: _Topic,
    kind: Annotated[SetAside | None, typer.Option("--kind", help="Which of them; all without it.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Only those of this partition.")] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", help="Only those that stood at this offset; see list.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many: the newest of them.")] = 20,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show records of a topic that were set aside: where each stood, its key and its value, and for dead letters the
    transform that failed and the reason. With -o json also its headers.
    """
    chosen = Fabric(load_with_declared(path, link)).link(link)
    found = chosen.show_quarantine(topic, kind=kind, partition=partition, offset=offset, limit=limit)
    if not output.is_table:
        render([plain(each) for each in found], output, names=[f"{each.partition}@{each.offset}" for each in found])
        return
    if found:
        render(
            [{**plain(each), "key": each.record.key, "value": each.record.value} for each in found],
            output,
            columns=_SHOWN,
        )
    else:
        _tell(f"nothing of this kind was set aside of {topic}")


@app.command()
def replay(
    link: _Link,
    topic: _Topic,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", help="The cluster to write to; else the source of the link, for dead letters its target."
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="TOPIC",
            help="The topic to write to; else that at the source, for dead letters at the target.",
        ),
    ] = None,
    kind: Annotated[SetAside, typer.Option("--kind", help="Which of them.")] = SetAside.DIVERGED,
    producer: Annotated[
        int | None, typer.Option("--producer", metavar="ID", help="Only records that this producer wrote; see list.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Dead letters as they were, not as the link's present transform changes them.")
    ] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be written.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Write the records of a topic that were set aside to the end of the source's topic, or of another one, each
    record once.

    Records keep partition, timestamp, key, value and headers; one more header, isthmus.replayed, states where each
    stood.
    By that header a replay that was interrupted, or is run again, writes only the missing records.

    With --kind dead-letter the records for which the transform of the link failed are changed by its present transform,
    and written to the target's topic, in the order in which they stand at the source and each once: what was replayed
    is written down in their own topic, in the same transaction. Exits with 1 if the transform fails for some again:
    these stay to be replayed.
    """
    configuration = load_with_declared(path, link)
    selected = QuarantineFilter(kind=kind, producer_id=producer)
    if not (yes or dry_run):
        where = "the target topic" if kind is SetAside.DEAD_LETTER else "the source topic"
        confirm(topic, f"have its records written to the end of {into or where}")
    chosen = Fabric(configuration).link(link)
    found = chosen.replay(topic, cluster=cluster, into=into, selected=selected, is_raw=raw, dry_run=dry_run)
    rows = [plain(each) for each in found]
    if output.is_table:
        of_letters = ("left_out_records", "failed_records", "reason")
        silent = () if kind is SetAside.DEAD_LETTER else of_letters
        render(rows, output, columns=[each for each in _REPLAYED if each.name not in silent])
        written = format_count(sum(each.written for each in found), "record")
        _tell(f"{written} would be written; nothing was" if dry_run else f"{written} written")
    else:
        render(rows, output, names=[str(each.partition) for each in found])
    if any(each.failed for each in found):
        raise typer.Exit(1)


def _tell(text: str) -> None:
    console.print(Text(printable(text)))
