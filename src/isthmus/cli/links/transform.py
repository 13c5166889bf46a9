"""`isthmus transform`: what links make of records on the way, tried on records of their sources."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.model.links.transform import OnError
from isthmus.model.links.trial import TransformTrial, TrialResult, TriedRecord
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_COLUMNS: Final = (
    Column("partition", gives_way=1),
    Column("offset"),
    Column("result"),
    Column("part", Cells.NAME),
    Column("before", Cells.PROSE),
    Column("after", Cells.PROSE),
)
_NOTHING: Final = "-"
_NULL: Final = "null"

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """What a link's transform makes of records."""


@app.command("try")
def try_transform(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link.")],
    topic: Annotated[str, typer.Option("--topic", help="The topic, named as at the source or as at the target.")],
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only this partition; without it all of them.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many records.")] = 20,
    from_offset: Annotated[
        int | None, typer.Option("--from-offset", min=0, help="Records from this offset on, of one partition.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest records, as without --from-offset.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Read records of the source, and show what the link's transform makes of each: before and after, part by part.

    Nothing is written or changed. Of records that are copied as they are, and of those that are left out, one line is
    shown. Bytes that are no text are written as \\xff.

    Exits with 1 if a record would stop its partition: the transform fails on it (on_error: stop), or it waits for the
    registry of schemas.
    """
    if last and from_offset is not None:
        raise ConfigError("--last and --from-offset name different records", hint="Give one of both.")
    with Fabric(load_with_declared(path, link)) as fabric:
        found = fabric.transform_trial(link, topic, partition=partition, limit=limit, offset_begin=from_offset)
    if output.is_table:
        render([row for record in found.records for row in _rows(record)], output, columns=_COLUMNS)
        _tell(found)
    else:
        render(plain(found), output, names=[f"{each.partition}/{each.offset}" for each in found.records])
    would_stop = found.count(TrialResult.FAILED) and found.transform.on_error is OnError.STOP
    if would_stop or found.count(TrialResult.WAITING):
        raise typer.Exit(1)


def _rows(record: TriedRecord) -> list[Row]:
    place = {"partition": record.partition, "offset": record.offset, "result": str(record.result)}
    if record.result is TrialResult.CHANGED:
        parts = record.differences.items()
        has = record.before.parts, {} if record.after is None else record.after.parts
        return [
            {
                **(place if number == 0 else {"partition": "", "offset": "", "result": ""}),
                "part": part,
                "before": _render_part(before, is_there=part in has[0]),
                "after": _render_part(after, is_there=part in has[1]),
            }
            for number, (part, (before, after)) in enumerate(parts)
        ]
    after = record.reason or ("the same" if record.result is TrialResult.UNCHANGED else _NOTHING)
    return [{**place, "part": "value", "before": _render_part(record.before.value), "after": after}]


def _render_part(text: str | None, *, is_there: bool = True) -> str:
    if not is_there:
        return _NOTHING
    return _NULL if text is None else text


def _tell(found: TransformTrial) -> None:
    counts = ", ".join(f"{found.count(result):,} {result}" for result in TrialResult if found.count(result))
    message = f"{format_count(len(found.records), 'record')} of {found.topic} at {found.source}"
    message = f"{message}: {counts or 'none'}; {found.transform.described}. Nothing was changed."
    console.print(Text(printable(message)))
    if found.unfound:
        missing = f"No record has {', '.join(found.unfound)}: is that written as in the records?"
        console.print(Text(printable(missing), style="yellow"))
