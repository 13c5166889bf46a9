"""The common options of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.logs import be_verbose
from isthmus.cli.output import OutputFormat
from isthmus.errors import ConfigError

_verbosity = 0


def is_verbose() -> bool:
    """Return whether -v was given: show progress, and the origin of unexpected errors."""
    return _verbosity > 0


def _be_verbose(given: int) -> int:
    global _verbosity
    if given:
        _verbosity += given
        be_verbose(_verbosity)
    return given


def chosen_link(argument: str | None, option: str | None) -> str | None:
    """Return the one link of a command, which is named as LINK or by --link; `None` for all.

    :raises ConfigError: Both are given, and they differ.
    """
    if argument is not None and option is not None and argument != option:
        raise ConfigError(f"two links are named: {argument}, and --link {option}", hint="Name one, or none for all.")
    return option if argument is None else argument


LinkArgument = Annotated[str | None, typer.Argument(metavar="LINK", help="Only this link; all of them without it.")]
LinkOption = Annotated[str | None, typer.Option("--link", help="The same as LINK.")]
LinksArgument = Annotated[list[str], typer.Argument(metavar="LINK", help="The link, or several.")]
OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print the result.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        help="The configuration file; else $ISTHMUS_CONFIG, else isthmus.yaml here or above.",
        show_default=False,
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        callback=_be_verbose,
        help="Report each step on stderr; -vv every request to a broker as well.",
        show_default=False,
    ),
]
PauseTopicOption = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic of it; may be repeated.")]
PauseNamespaceOption = Annotated[
    str | None, typer.Option("--namespace", metavar="PREFIX", help="Only topics whose names begin so: orders-.")
]
PauseTaskOption = Annotated[
    str | None, typer.Option("--task", help="Only this task of it: data, topics, groups, configs ... as in status.")
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option("--keep", help="With --enforce: who may go on writing, as User:isthmus; else the link's own login."),
]
SuperUserOption = Annotated[
    bool, typer.Option("--super-user", help="With --enforce: the link is a super user, beyond all rules.")
]
DeclaringDryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be declared.")]
