"""`isthmus gateway`: the server to which clients connect in place of brokers, and its health."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.logs import be_verbose
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.servers.metrics import MetricsAnyInterfaceOption, MetricsOption
from isthmus.cli.servers.serve import CertificateOption, KeyOption
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.gateway.bounds import DEFAULTS, GatewayBounds
from isthmus.gateway.ports import BrokerNames, ListenRange
from isthmus.gateway.running import serve as serve_gateway
from isthmus.gateway.server import GatewaySettings
from isthmus.gateway.telling import ask_gateway
from isthmus.model.configuration import Configuration, MetricsSettings
from isthmus.model.gateways.registered import ForgottenGateway, GatewayPair, GatewaysReport, RegisteredGateway
from isthmus.model.process.listening import ListenAddress
from isthmus.model.text.elapsed import ago
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import first_few, format_count

_SERVE: Final = "serve"
_COLUMNS: Final = (
    Column("software", Cells.NAME),
    Column("version", Cells.NAME),
    Column("connections", Cells.NUMBER),
    Column("connected", Cells.NUMBER, 2),
    Column("requests", Cells.NUMBER),
    Column("request_bytes", Cells.NUMBER, 1),
    Column("answer_bytes", Cells.NUMBER, 1),
)
_GATEWAYS: Final = (
    Column("address", Cells.NAME),
    Column("host", Cells.NAME, 4),
    Column("serves", Cells.PROSE),
    Column("since", gives_way=5),
    Column("last_beat"),
    Column("processes", gives_way=2),
    Column("connections", Cells.NUMBER, 1),
    Column("holds", Cells.PROSE),
    Column("moves", Cells.PROSE, 3),
    Column("refused", Cells.PROSE, 6),
    Column("id", Cells.NAME, is_wide=True),
    Column("pid", is_wide=True),
    Column("version", is_wide=True),
)
_PAIRS: Final = (
    Column("link", Cells.NAME),
    Column("source", Cells.NAME, 2),
    Column("target", Cells.NAME, 2),
    Column("stands", Cells.PROSE),
    Column("held", Cells.NUMBER),
    Column("oldest"),
    Column("out_of_sync", gives_way=1),
)

ListenOption = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:FIRST-LAST",
        help="Where to listen: a port for each id of a broker, in order; or HOST:PORT, with names.",
    ),
]
AdvertiseOption = Annotated[
    str,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="Where clients reach the first of these ports; or, with TLS, a name for each broker at one port: "
        "broker-{id}.east.example:19092.",
    ),
]
ClientCaOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help=(
            "Authorities of clients as PEM: a client with a certificate of theirs is logged in by the configuration "
            "(clusters.CLUSTER.logins)."
        ),
    ),
]


class _Gateway(Noun):
    """Serve, unless another of its commands is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_SERVE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Gateway, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Have clients reach a cluster through a gateway (docs/gateway.md).

    isthmus gateway CLUSTER --listen ... is short for isthmus gateway serve CLUSTER --listen ...
    """


@app.command()
def status(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="CLUSTER",
            help="Gateways of this cluster only; or HOST:PORT, the --metrics of one gateway.",
        ),
    ] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the gateways that have registered in the ledgers of the clusters, and the synchronous links they hold.

    A gateway is shown with the cluster it was started for if that is another one than it serves, as clients have moved.
    One that was not heard for ten seconds is silent: it has ended, or is cut off. Exits with 1 if a cluster did not
    answer within five seconds.

    Of one gateway, by the address of its metrics: connected clients, traffic, and refused connections. Numbers
    count since it started, but for connections, which are those there are now.
    """
    if where is not None and ":" in where:
        _show_one(ask_gateway(_address(where, "HOST:PORT")), output)
        return
    found = asyncio.run(_read_gateways(load_configuration(path), where))
    if output.is_table:
        render([_gateway_row(each) for each in found.gateways], output, title="Gateways", columns=_GATEWAYS)
        if found.pairs:
            render([_pair_row(each) for each in found.pairs], output, title="Synchronous links", columns=_PAIRS)
    else:
        render(plain(found), output, names=[each.address for each in found.gateways])
    if not output.has_problems:
        _tell(found)
    if found.away:
        raise typer.Exit(1)


@app.command()
def forget(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The alias of the cluster that it served last.")],
    gateway: Annotated[
        str,
        typer.Argument(metavar="GATEWAY", help="Its address, or its id or how that begins (gateway status -o wide)."),
    ],
    yes: YesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the gateway, and the entries that would be removed.")
    ] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Declare that a silent gateway has ended: it was killed, or its host is gone.

    Nothing shows that from outside: one may be cut off from the ledgers alone, and serve its clients. So it stands in
    the way: links do not become synchronous, and clients are not moved. From then on no link and no command waits for
    it. If it has not ended, records that it acknowledges for such links and clients are lost: make sure that its
    process or its host is gone.

    One that is heard is refused; one that ends in good order takes itself out. Exits with 1 if a cluster of the file
    did not answer, whose ledger may still have it: give the command again.
    """
    if not (yes or dry_run):
        confirm(
            gateway,
            f"declare that this gateway of {cluster} has ended; if it is only cut off from the ledgers, records that "
            "it "
            "acknowledges from now on may be lost",
        )
    found = asyncio.run(_forgotten(load_configuration(path), cluster, gateway, dry_run=dry_run))
    if output.is_table:
        _tell_forgotten(found, dry_run=dry_run)
    else:
        render(plain(found), output, names=list(found.gateway.ids))
    if found.away:
        raise typer.Exit(1)


async def _forgotten(configuration: Configuration, cluster: str, gateway: str, *, dry_run: bool) -> ForgottenGateway:
    configuration.cluster(cluster)
    async with await AsyncFabric.open(configuration, declared=True) as fabric:
        return await fabric.forget_gateway(cluster, gateway, away=fabric.configuration.unread, dry_run=dry_run)


def _tell_forgotten(found: ForgottenGateway, *, dry_run: bool) -> None:
    one = found.gateway
    where = f" on {one.host}" if one.host else ""
    processes = f", {format_count(one.silent, 'process', 'processes')}" if one.processes > 1 else ""
    lines = [
        f"{one.address}{where}{processes}, heard {ago(one.beat_age_s)}, {'would be' if dry_run else 'is'} forgotten by "
        f"the ledgers of {first_few(found.ledgers)}"
    ]
    if found.links:
        lines.append(
            f"of {first_few(found.links)}: once a gateway has proven that the follower has all that it answered"
        )
    lines += [f"{alias}: {each.in_full}" for alias, each in found.away.items()]
    for each in lines:
        console.print(Text(printable(each)))


async def _read_gateways(configuration: Configuration, cluster: str | None) -> GatewaysReport:
    if cluster is not None:
        configuration.cluster(cluster)
    async with await AsyncFabric.open(configuration, declared=True) as fabric:
        return await fabric.gateways(cluster, away=fabric.configuration.unread)


def _gateway_row(found: RegisteredGateway) -> Row:
    started_for = f" (started for {found.cluster})" if found.cluster not in ("", found.serves) else ""
    return {
        "address": found.address,
        "host": found.host,
        "serves": found.serves + started_for,
        "since": written_instant(found.since_ms) if found.since_ms >= 0 else None,
        "last_beat": found.beat_in_words,
        "processes": f"{found.heard} of {found.processes}",
        "connections": found.connections,
        "holds": "; ".join(each.described for each in found.links),
        "moves": found.move,
        "refused": found.refused_in_words,
        "id": ", ".join(found.ids),
        "pid": found.pid or None,
        "version": found.version,
    }


def _pair_row(found: GatewayPair) -> Row:
    return {
        "link": found.link,
        "source": found.source,
        "target": found.target,
        "stands": found.described,
        "held": found.held,
        "oldest": f"{found.oldest_s:.1f} s" if found.held else "",
        "out_of_sync": str(found.out_of_sync),
    }


def _tell(found: GatewaysReport) -> None:
    """Print further notes on stderr."""
    lines = [*found.clashes, *(each.described for each in found.unmarked if each.described)]
    lines += [f"{each.link}: {each.problem.in_full}" for each in found.pairs if each.problem is not None]
    lines += [f"{alias}: {each.in_full}" for alias, each in found.away.items()]
    for each in lines:
        console.print(Text(printable(each), style="yellow"))


def _show_one(found: dict[str, Any], output: OutputFormat) -> None:
    if not output.is_table:
        render(found, output)
        return
    shown = {key: value for key, value in found.items() if key != "clients"}
    shown["refused"] = ", ".join(f"{why} {count}" for why, count in found["refused"].items()) or "none"
    render(shown, output, title=f"Gateway of {found['cluster']}")
    render(found["clients"], output, title="Clients", columns=_COLUMNS)


@app.command(_SERVE)
def serve(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The alias of the cluster behind it.")],
    listen: ListenOption,
    advertise: AdvertiseOption,
    first_node: Annotated[
        int | None,
        typer.Option(
            "--first-node", min=0, help="The id of the broker behind the first port; else the lowest id there is."
        ),
    ] = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    client_ca: ClientCaOption = None,
    connections_max: Annotated[
        int, typer.Option("--connections-max", min=1, help="More are refused.")
    ] = DEFAULTS.connections,
    connections_per_address: Annotated[
        int, typer.Option("--connections-per-address", min=1, help="More from one address are refused.")
    ] = DEFAULTS.connections_per_address,
    frame_bytes_max: Annotated[
        int, typer.Option("--frame-bytes-max", min=1024, help="A client that sends a larger request is disconnected.")
    ] = DEFAULTS.frame_bytes,
    processes: Annotated[
        int, typer.Option("--processes", min=1, max=64, help="How many processes share the ports, and the limits.")
    ] = 1,
    metrics: MetricsOption = None,
    metrics_any_interface: MetricsAnyInterfaceOption = False,
    path: ConfigOption = None,
    _verbose: VerboseOption = 0,
) -> None:
    """Be what clients of a cluster are connected to in place of its brokers, until Ctrl-C (docs/gateway.md).

    Requests and answers pass as they are, but for the addresses of brokers: those become our own. Clients log in at the
    brokers, through us, or are logged in by us if they have a certificate. Acknowledgements of synchronous links wait
    for their targets, which have to be in the file (docs/guide-synchronous.md).
    """
    if (certificate is None) != (key is None):
        raise ConfigError("a certificate and its key belong together", hint="Give both --tls-cert and --tls-key.")
    settings = GatewaySettings(
        listen=ListenRange.parse(listen),
        advertise=BrokerNames.parse(advertise) if "{" in advertise else _address(advertise, "--advertise"),
        first_node=first_node,
        certificate=certificate,
        key=key,
        client_ca=client_ca,
        bounds=GatewayBounds(
            connections=connections_max,
            connections_per_address=connections_per_address,
            frame_bytes=frame_bytes_max,
        ),
    )
    configuration = load_configuration(path)
    configuration.cluster(cluster)
    be_verbose(1)
    metrics_settings = MetricsSettings(listen=metrics, any_interface=metrics_any_interface)
    raise typer.Exit(
        128 + asyncio.run(serve_gateway(configuration, cluster, settings, metrics_settings, processes=processes))
    )


def _address(written: str, option: str) -> ListenAddress:
    try:
        return ListenAddress.parse(written)
    except ValueError as error:
        raise ConfigError(f"{option} {written} {error}") from None
