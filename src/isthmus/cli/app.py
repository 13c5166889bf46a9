"""The command `isthmus`. Each command is a module of its own, loaded when it is used."""

from __future__ import annotations

import gc
import importlib
import os
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from isthmus import __version__
from isthmus.cli import oneoff
from isthmus.cli.endings import check_stdout, end_at_signals, report_errors
from isthmus.cli.logs import begin, log_into
from isthmus.cli.options import VerboseOption
from isthmus.config.reading.contexts import VARIABLE as CONTEXT_VARIABLE
from isthmus.config.reading.places import VARIABLE as CONFIG_VARIABLE
from isthmus.model.process.logsettings import LogSettings


class Command(NamedTuple):
    """A module with a `typer.Typer` named `app`, and its line in the help.

    The module's `app` has either one command or a callback and several; it is made with `add_completion=False`,
    completion being the whole command's.
    """

    module: str
    summary: str


COMMANDS: Final = {
    "init": Command("isthmus.cli.setup.init", "Write a configuration to start with, after asking the clusters."),
    "local": Command("isthmus.cli.setup.local", "Start, stop and show real Kafka clusters on this machine."),
    "plan": Command("isthmus.cli.links.plan", "Show what would be created and copied."),
    "run": Command("isthmus.cli.links.run", "Create missing topics and copy records."),
    "status": Command("isthmus.cli.links.status", "Show how links, topics and partitions stand."),
    "wait": Command("isthmus.cli.links.wait", "Wait until a link or a topic is caught up, or in a state."),
    "verify": Command(
        "isthmus.cli.links.verify", "Prove that both sides hold the same records, or report the differences."
    ),
    "transform": Command("isthmus.cli.links.transform", "Try how a link changes records on the way."),
    "groups": Command("isthmus.cli.links.groups", "Show and carry consumer groups; try a failover without one."),
    "pause": Command("isthmus.cli.links.pause", "Stop copying a link or a topic for a while."),
    "resume": Command("isthmus.cli.links.resume", "Resume paused links, topics and tasks."),
    "filters": Command(
        "isthmus.cli.links.filters", "Show or change the topics and groups that a link selects, while it runs."
    ),
    "settings": Command("isthmus.cli.links.settings", "Show or change limits and mm2 of a link, while it runs."),
    "forget": Command("isthmus.cli.links.forget", "Forget topics that a link mirrors no more."),
    "link": Command("isthmus.cli.links.link", "Declare links on their clusters, and change them."),
    "quarantine": Command(
        "isthmus.cli.links.quarantine", "Show and replay the records that were set aside when a topic was recovered."
    ),
    "tree": Command("isthmus.cli.clusters.trees", "Draw distribution trees."),
    "namespace": Command(
        "isthmus.cli.clusters.namespace", "Declare namespaces of a cluster: reserved, leading, following."
    ),
    "schemas": Command("isthmus.cli.clusters.schemas", "Show, compare and distribute what schema registries hold."),
    "provenance": Command("isthmus.cli.links.provenance", "Show where the records of a topic came from."),
    "cluster": Command(
        "isthmus.cli.clusters.cluster", "List and describe clusters: brokers, topics, quorum, findings."
    ),
    "acls": Command("isthmus.cli.clusters.acls", "Make the access rules that a link needs."),
    "gateway": Command("isthmus.cli.servers.gateway", "Have clients reach a cluster through a gateway."),
    "relay": Command("isthmus.cli.servers.relay", "Join clusters that are behind NAT, both of them."),
    "serve": Command("isthmus.cli.servers.serve", "Answer over HTTP: the REST API."),
    "token": Command("isthmus.cli.servers.token", "Manage who may call the REST API."),
    "doctor": Command("isthmus.cli.setup.doctor", "Examine everything a configuration needs."),
    "import": Command("isthmus.cli.setup.imports", "Turn a configuration of MirrorMaker 2 into one of Isthmus."),
    "context": Command("isthmus.cli.setup.context", "Name configuration files, and choose which of them is used."),
    "config": Command("isthmus.cli.setup.config", "Check the configuration file, or show it resolved."),
    "help": Command("isthmus.cli.help", "Show what exit codes, error codes and states mean, and pages of the docs."),
}
"""All commands in the order of the help. The name is the one that people type."""


class Commands(TyperGroup):
    """Load a command's module when it is called, so that help and completion need none.

    Every error of the command is reported here, including those while it is loaded.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in COMMANDS.items():
            self.add_command(TyperCommand(name, help=command.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = get_command(importlib.import_module(COMMANDS[name].module).app)
            _collect_again()
            command.name = name
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        with report_errors():
            return super().invoke(ctx)


_IN_WORDS: Final = {"<int>": "<number>", "<float>": "<number>", "<str>": "<text>"}


def _say_types_in_words() -> None:
    """Show in the help the type of an option's value in words, and nothing for a flag."""
    shown = TyperOption.display_type_rich

    def in_words(option: TyperOption, ctx: Any) -> str | None:
        if option.is_flag or option.count:
            return None
        text = shown(option, ctx)
        return None if text is None else _IN_WORDS.get(text, text)

    setattr(TyperOption, "display_type_rich", in_words)  # noqa: B010 - a method of another library's class


_say_types_in_words()
_EPILOG: Final = (
    "Exit codes: 0 done; 1 something is wrong; 2 command line or configuration; 3 plan: something would change; "
    "4 both sides differ; 5 not so in time; 6 refused; 10 no answer; 11 TLS or login; 12 access rule missing; "
    "13 unsupported; 14 broker's error; 15 taken over; 16 runs elsewhere; 17, 18, 19 schema registry; 20 Java; "
    "21 port taken; 22 broker jars; 23 Spark; 70 a bug; 130 Ctrl-C; 141 the reader of the results has left; "
    "143 SIGTERM. In full: isthmus help exit-codes. For the remedy of an error: isthmus help ISTH-..., with its code."
)

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _choose(name: str | None) -> str | None:
    if name:
        os.environ[CONTEXT_VARIABLE] = name
    return name


def _choose_file(path: Path | None) -> Path | None:
    if path is not None:
        # It is the default of the command, unless the command has another option.
        os.environ[CONFIG_VARIABLE] = str(path)
        os.environ.pop(CONTEXT_VARIABLE, None)
    return path


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"isthmus {__version__}")
        raise typer.Exit


_FileOption = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        callback=_choose_file,
        help="The configuration file, as commands take it.",
        show_default=False,
    ),
]


@app.callback()
def isthmus(
    _verbose: VerboseOption = 0,
    _config: _FileOption = None,
    _context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="CONTEXT",
            callback=_choose,
            help="Use the configuration file of this name: isthmus context list.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--bootstrap-server",
            metavar="[ALIAS=]HOST:PORT,...",
            help="A cluster for this one command, in place of a configuration file; its alias is cluster without one.",
            show_default=False,
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="The properties of a client of it, as Kafka's own tools take them.",
            show_default=False,
        ),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Keep all that is logged in this file as well, as JSON lines.",
            show_default=False,
        ),
    ] = None,
    unsafe_trace: Annotated[
        bool,
        typer.Option(
            "--unsafe-trace",
            help="Log requests and answers in full: passwords and records too. With -vv or --log-file.",
        ),
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Mirrors Kafka topics between clusters: same offsets, same bytes, exactly once, on Spark."""
    oneoff.name(bootstrap_server or (), command_config)
    if log_file is not None:
        log_into(LogSettings(file=str(log_file)))
    if unsafe_trace:
        from isthmus.kafka.trace import trace_unsafely

        trace_unsafely()


def main() -> None:
    """Run the command `isthmus`; end the process with the command's exit code."""
    end_at_signals()
    begin()
    with check_stdout():
        get_command(app)(prog_name="isthmus")


def _collect_again() -> None:
    """Collect garbage again: the command is loaded, and the objects for that stay."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
