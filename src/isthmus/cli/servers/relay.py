"""`isthmus relay`: a meeting place for clusters that cannot be reached from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from isthmus.cli.logs import be_verbose
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.model.cluster import Tls
from isthmus.model.process.listening import ListenAddress
from isthmus.relay.agent import JoinSettings, reached_brokers
from isthmus.relay.agent import join as join_relay
from isthmus.relay.server import RelaySettings
from isthmus.relay.server import serve as serve_relay
from isthmus.relay.speech import Tokens

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

_COLUMNS: Final = (Column("side", Cells.NAME), Column("broker", Cells.NAME))
_Token = Annotated[
    Path,
    typer.Option(
        "--token",
        metavar="FILE",
        envvar="ISTHMUS_RELAY_TOKEN",
        show_envvar=False,
        help="The file that holds the token of the relay; else $ISTHMUS_RELAY_TOKEN names it. Read for every "
        "connection.",
    ),
]


@app.callback()
def group() -> None:
    """Join clusters that are behind NAT, both of them, on a host that both reach (docs/networks.md).

    The host runs isthmus relay serve, each side isthmus relay join; links reach its brokers by
    clusters.ALIAS.proxy: relay://SIDE@HOST:PORT. TLS between links and brokers passes as it is.
    """


@app.command()
def serve(
    token: _Token,
    certificate: Annotated[Path, typer.Option("--tls-cert", metavar="FILE", help="A certificate chain as PEM.")],
    key: Annotated[Path, typer.Option("--tls-key", metavar="FILE", help="Its key as PEM.")],
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = "0.0.0.0:7443",
    connections_max: Annotated[
        int, typer.Option("--connections-max", min=1, help="More are refused: each takes up to 1 MiB of memory.")
    ] = 1000,
    _verbose: VerboseOption = 0,
) -> None:
    """Be the relay, until Ctrl-C. Every owner of the token may join as a side, and reach the brokers of all sides."""
    be_verbose(1)
    settings = RelaySettings(
        listen=_address(listen), certificate=certificate, key=key, token=token, connections_max=connections_max
    )
    asyncio.run(serve_relay(settings))


@app.command()
def join(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The alias of the cluster whose brokers are here.")],
    token: _Token,
    relay: Annotated[str, typer.Option("--relay", metavar="HOST:PORT", help="Which relay.")],
    side: Annotated[
        str | None, typer.Option("--as", metavar="SIDE", help="The name of the side; else the alias.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca", metavar="FILE", help="The authorities that may have signed the relay's certificate, as PEM."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which brokers links would reach.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have links reach the brokers of a cluster through a relay, until Ctrl-C.

    Runs where the brokers can be reached, and dials out: nothing is let in. It connects to brokers of this cluster and
    to nothing else. Without a configuration file: isthmus -b east=broker-1:9092 relay join east ...
    """
    found = load_configuration(path).cluster(cluster)
    settings = JoinSettings(
        relay=str(_address(relay)),
        side=_side(side or found.alias),
        token=Tokens(token),
        tls=Tls(ca_file=None if ca is None else str(ca)),
    )
    if dry_run:
        brokers = asyncio.run(reached_brokers(found))
        render([{"side": settings.side, "broker": each} for each in brokers], output, columns=_COLUMNS)
        return
    be_verbose(1)
    asyncio.run(join_relay(found, settings))


def _address(written: str) -> ListenAddress:
    try:
        return ListenAddress.parse(written)
    except ValueError as error:
        raise ConfigError(f"{written} {error}") from None


def _side(name: str) -> str:
    if not name or set(name) & set(":@/ ") or not name.isprintable():
        raise ConfigError(f"{name!r} cannot be the name of a side", hint="It stands in relay://SIDE@host:port.")
    return name
