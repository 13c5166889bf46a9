"""`isthmus schemas`: the content of schema registries, and their differences from the primary one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, applicable, console, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.answers import OnRegistryChange, SchemasPlan
from isthmus.fabric.fabric import Fabric, Schemas
from isthmus.model.problem import Problem
from isthmus.model.schemas.content import RegistryContents
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

DIFFERENCE: Final = 4
_COLUMNS: Final = (
    Column("subject", Cells.NAME),
    Column("name", Cells.NAME, gives_way=3),
    Column("type", gives_way=2),
    Column("versions"),
    Column("deleted", gives_way=4),
    Column("id"),
    Column("compatibility", gives_way=1),
)
_CHANGE_COLUMNS: Final = (
    Column("registry", Cells.NAME),
    Column("change"),
    Column("subject", Cells.NAME),
    Column("version"),
    Column("id"),
    Column("before", gives_way=1),
    Column("after", gives_way=2),
    Column("problem", Cells.PROSE),
)

_REGISTRY_COLUMNS: Final = (
    Column("registry", Cells.NAME),
    Column("role"),
    Column("url", Cells.PROSE, gives_way=2),
    Column("subjects", Cells.NUMBER),
    Column("versions", Cells.NUMBER),
    Column("mode", gives_way=1),
    Column("problem", Cells.PROSE),
)

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Show the schemas of registries, and distribute those of the primary one to all others."""


@app.command(name="list")
def list_schemas(
    alias: Annotated[
        str | None,
        typer.Argument(metavar="CLUSTER", help="Whose registry; that of the primary cluster without it."),
    ] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the subjects of a registry, each with its topic's logical name, its versions and the id of the latest.

    JSON and YAML hold a row for each version.
    """
    schemas = Fabric(load_configuration(path)).schemas
    registry = schemas.registry(alias)
    found = schemas.contents(registry.alias)
    if output.is_table:
        rows = [_subject_row(schemas, registry.alias, found, subject) for subject in found.subjects]
        render([applicable(row) for row in rows], output, columns=_COLUMNS)
        default, mode = found.default_compatibility, found.mode
        message = f"{registry.alias}: compatibility {default} by default" + (f", mode {mode}" if mode else "")
        console.print(Text(printable(message)))
        return
    rows = plain(found.list_named(partial(schemas.logical, registry.alias)))
    render(rows, output, names=found.subjects)


@app.command()
def diff(
    aliases: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER", help="Only the registries of these clusters.")
    ] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the changes by which other registries get the schemas of the primary one. Nothing is changed.

    Exits with 4 if they differ, with 1 if one could not be asked. Schemas in another registry only (`keep`) are shown,
    and are no difference.
    """
    plans = Fabric(load_configuration(path)).schemas.plan(aliases or ())
    _show(plans, output)
    _tell(plans)
    if any(plan.problem for plan in plans):
        raise typer.Exit(1)
    if not all(plan.is_alike for plan in plans):
        raise typer.Exit(DIFFERENCE)


@app.command()
def sync(
    aliases: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER", help="Only the registries of these clusters.")
    ] = None,
    delete_gone: Annotated[
        bool,
        typer.Option(
            "--delete-gone", help="Delete schemas for good that were distributed and that the primary no longer has."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Give other registries the schemas of the primary one, once; isthmus run does it again and again.

    Ids and versions are those of the primary. Refused changes are shown, with a remedy, and stop no other change. Exits
    with 1 then, or if a registry could not be asked.
    """
    schemas = Fabric(load_configuration(path)).schemas
    if dry_run:
        plans = schemas.plan(aliases or (), delete_gone=delete_gone)
        _show(plans, output)
        _tell(plans)
        return
    if delete_gone and not yes:
        registries = ", ".join(route.target.alias for route in schemas.routes(aliases or ()))
        confirm(registries, "delete for good what its registry has and the primary one has not")
    with _progress() as report:
        plans = schemas.sync(aliases or (), delete_gone=delete_gone, on_change=report)
    _show(plans, output)
    _tell(plans, is_done=True)
    if any(plan.problem or any(change.problem for change in plan.changes) for plan in plans):
        raise typer.Exit(1)


@app.command()
def primary(
    alias: Annotated[
        str | None, typer.Argument(metavar="CLUSTER", help="Whose registry becomes the primary one.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Do not ask the present primary: it is gone. Schemas that only it has stay there."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the primary registry, the subjects that the others get from it, and who may write to them; or make another
    one the primary.

    The new primary has to hold all schemas of the present one. Where registries have modes, users can write to the
    new primary afterwards, and no longer to the former one. Then write schemas.primary into the file: until then a run
    distributes nothing new.
    """
    schemas = Fabric(load_configuration(path)).schemas
    if alias is None:
        if force or dry_run:
            raise ConfigError("nothing becomes the primary registry", hint="Name its cluster.")
        rows = [plain(each) for each in schemas.registries()]
        render(rows, output, columns=_REGISTRY_COLUMNS, names=[str(row["registry"]) for row in rows])
        return
    former = schemas.registry().alias
    if force and not (yes or dry_run):
        confirm(alias, f"make its registry the primary one without asking that of {former}")
    plans = schemas.move_primary(alias, force=force, dry_run=dry_run)
    _show(plans, output)
    message = f"the registry of {alias} {'would be' if dry_run else 'is'} the primary one"
    without = "" if any(plan.changes for plan in plans) else "; no mode states who may write to it"
    write = "" if former == alias else f". Write schemas.primary: {alias} into the file"
    console.print(Text(printable(f"{message}{without}{write}"), style="green"))


@contextmanager
def _progress() -> Iterator[OnRegistryChange]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def report(registry: str, done: int, total: int) -> None:
            if registry not in tasks:
                tasks[registry] = bars.add_task(printable(registry))
            bars.update(tasks[registry], completed=done, total=total)

        yield report


def _subject_row(schemas: Schemas, alias: str, found: RegistryContents, subject: str) -> Row:
    versions = found.of(subject)
    active = [each for each in versions if not each.is_deleted]
    latest = (active or list(versions))[-1]
    return {
        "subject": subject,
        "name": schemas.logical(alias, subject),
        "type": latest.schema.type,
        "versions": _spans(each.version for each in active) or None,
        "deleted": _spans(each.version for each in versions if each.is_deleted) or None,
        "id": str(latest.id),
        "compatibility": found.compatibility.get(subject),
    }


def _spans(numbers: Iterable[int]) -> str:
    """Format numbers in a few words: 1-3, 5."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _show(plans: Sequence[SchemasPlan], output: OutputFormat) -> None:
    if not output.is_table:
        render([plain(plan) for plan in plans], output, names=[plan.registry for plan in plans])
        return
    rows = [
        {
            "registry": plan.registry,
            **plain(change),
            "problem": change.problem.message if change.problem else None,
        }
        for plan in plans
        for change in plan.changes
    ]
    if rows:
        render([applicable(row) for row in rows], output, columns=_CHANGE_COLUMNS)


def _tell(plans: Sequence[SchemasPlan], *, is_done: bool = False) -> None:
    """Print on stderr the state of each registry, and the remedies for refused changes."""
    for plan in plans:
        if plan.problem is not None:
            _say(plan.registry, plan.problem)
            continue
        for hint in dict.fromkeys(change.problem.hint for change in plan.changes if change.problem):
            if hint:
                console.print(Text(f"  {printable(hint)}"))
        needed = [change for change in plan.changes if change.is_needed]
        refused = sum(change.problem is not None for change in plan.changes)
        made = len(needed) - refused if is_done else len(needed)
        message = f"{format_count(made, 'change')} {'made' if is_done else 'to be made'}"
        if not needed:
            message = f"holds what {plan.primary} holds"
        message += f", {refused:,} refused" if refused else ""
        console.print(
            Text(
                printable(f"{plan.registry}: {message}"),
                style="yellow" if refused or (needed and not is_done) else "green",
            )
        )


def _say(where: str, problem: Problem) -> None:
    console.print(Text(printable(f"{where}: {problem.message}"), style="yellow"))
    if problem.hint:
        console.print(Text(f"  {printable(problem.hint)}"))
