"""`isthmus groups copy` and `groups key`: the copy of a source's positions at the target, and its keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, applicable, console, printable, render
from isthmus.cli.setup.config import load_configuration, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.answers import KEY_BYTES
from isthmus.fabric.fabric import Fabric
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_COLUMNS: Final = (
    Column("source_cluster_id", gives_way=3),
    Column("group", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("position", Cells.NUMBER),
    Column("encrypted", gives_way=2),
    Column("copied_at", gives_way=1),
    Column("link", Cells.NAME, is_wide=True),
)
_STDIN: Final = "-"


def key(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's name at the source.")],
    path: ConfigOption = None,
    link: Annotated[str | None, typer.Option("--link", help="The source of this link.")] = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Print the key of one group, for those who are to read its positions in an encrypted copy: hand it over in secret.

    It is derived from the source's offsets_copy_secret; no cluster is asked. It opens nothing of other groups.
    """
    found = Fabric(load_with_declared(path, link)).groups.key(group, link=link).hex()
    if output.is_table:
        # Alone, to be piped into a file.
        typer.echo(found)
    else:
        render({"group": group, "algorithm": "AES-256-GCM", "key": found}, output, names=[group])


def copy(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster that holds the copy.")],
    source: Annotated[
        str | None, typer.Option("--source", metavar="ID", help="Only of the cluster with this cluster id.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; several times for more.")] = None,
    key_file: Annotated[
        str | None,
        typer.Option("--key-file", metavar="FILE", help="The key of the --group, as groups key prints it; - is stdin."),
    ] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the positions of other clusters' groups of which a cluster holds a copy (groups.offsets_copy of a link).

    Encrypted ones are opened with the key of their group. Exits with 1 if the given key does not decrypt the group's
    positions.
    """
    groups = group or []
    if key_file is not None and len(groups) != 1:
        raise ConfigError("a key is that of one group", hint="Name both: --group NAME --key-file FILE.")
    opened = None if key_file is None else _key(key_file)
    found = (
        Fabric(load_configuration(path)).cluster(cluster).copied_commits(source_id=source, groups=groups, key=opened)
    )
    rows = [plain(each) for each in found]
    if output.is_table:
        render([applicable(row) for row in rows], output, columns=_COLUMNS)
    else:
        render(rows, output, names=[f"{row['group']}/{row['topic']}-{row['partition']}" for row in rows])
    closed = sum(each.committed is None for each in found)
    if closed:
        why = "the key given does not open them" if opened else "isthmus groups key GROUP prints their keys"
        message = f"{format_count(closed, 'position')} cannot be read: {why}"
        console.print(Text(printable(message), style="yellow"))
    if closed and opened is not None:
        raise typer.Exit(1)


def _key(file: str) -> bytes:
    try:
        text = sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
        read = bytes.fromhex(text.strip())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint="Name the file with the key.") from None
    except ValueError:
        read = b""
    if len(read) != KEY_BYTES:
        raise ConfigError(
            f"what {file} holds is no key", hint="A key is 64 hexadecimal digits, as isthmus groups key prints it."
        )
    return read
