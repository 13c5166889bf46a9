"""`isthmus acls`: the access rules that a link's own users need, in the formats of other tools."""

from __future__ import annotations

import enum
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer
import yaml
from rich.text import Text

from isthmus.access.grants import GrantedSide, RulePlace, by_place, granted_sides
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, LinkOption, VerboseOption, chosen_link
from isthmus.cli.output import console, print_line, printable
from isthmus.cli.setup.config import load_with_declared
from isthmus.errors import ConfigError
from isthmus.model.kafka.access import RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.links.needs import Side
from isthmus.model.text.plain import plain

_OPTIONS: Final = {
    Resource.TOPIC: "--topic",
    Resource.GROUP: "--group",
    Resource.TRANSACTIONAL_ID: "--transactional-id",
}
_TYPES: Final = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.TRANSACTIONAL_ID: "transactionalId",
    Resource.CLUSTER: "cluster",
}
_NO_NAME: Final = re.compile(r"[^a-z0-9.-]+")


class AclFormat(enum.StrEnum):
    """The tool for which the rules are printed."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"
    JSON = "json"


app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Make the access rules that a link needs."""


@app.command()
def generate(
    name: Annotated[str | None, typer.Argument(metavar="LINK", help="The link.", show_default=False)] = None,
    link: LinkOption = None,
    side: Annotated[Side | None, typer.Option("--side", help="Only this end of the link.")] = None,
    source_principal: Annotated[
        str | None,
        typer.Option("--source-principal", help="The principal of Isthmus at the source, such as User:isthmus."),
    ] = None,
    target_principal: Annotated[
        str | None, typer.Option("--target-principal", help="The principal of Isthmus at the target.")
    ] = None,
    only_required: Annotated[
        bool, typer.Option("--only-required", help="Leave out optional rights, for whose absence doctor only warns.")
    ] = False,
    path: ConfigOption = None,
    output: Annotated[
        AclFormat, typer.Option("-o", "--output", help="Commands of Kafka's tool, KafkaUsers of Strimzi, or a list.")
    ] = AclFormat.KAFKA_ACLS,
    _verbose: VerboseOption = 0,
) -> None:
    """Print the smallest set of rights of a link's users at both ends, as its configuration needs them.

    Nothing is changed, and for a link of the file no cluster is contacted; a declared one is read from the clusters.
    The principals are those of the logins in the configuration; give them where certificates or tokens name them.
    Parts of the configuration that rules cannot express exactly are reported on stderr.
    """
    link = chosen_link(name, link)
    if link is None:
        raise ConfigError("no link is named", hint="Name the link: isthmus acls generate LINK.")
    configuration = load_with_declared(path, link)
    chosen = configuration.link(link)
    principals = {Side.SOURCE: source_principal, Side.TARGET: target_principal}
    sides = granted_sides(chosen, principals, others=configuration.links, side=side, only_required=only_required)
    for one in sides:
        for note in one.notes:
            console.print(Text(printable(f"{one.cluster.alias}: {note}"), style="yellow"))
    for line in format_rules(chosen, sides, output):
        print_line(line)


def format_rules(link: Link, sides: Sequence[GrantedSide], output: AclFormat) -> Iterator[str]:
    """Yield the rules of both sides in a format, line by line."""
    match output:
        case AclFormat.KAFKA_ACLS:
            for each in sides:
                yield from _commands(link, each)
        case AclFormat.STRIMZI:
            users = [_kafka_user(each) for each in sides]
            yield from yaml.safe_dump_all(users, sort_keys=False, explicit_start=True).splitlines()
        case AclFormat.JSON:
            rows = [plain(row) for each in sides for row in each.rows]
            yield from json.dumps(rows, indent=2).splitlines()


def _commands(link: Link, side: GrantedSide) -> Iterator[str]:
    servers = ",".join(side.cluster.bootstrap_servers)
    yield f"# {side.side} of {link.name}: {side.cluster.alias}; add --command-config with an administrator's login"
    yield "# With allow.everyone.if.no.acl.found=true make rules first for those who use the same topics and groups"
    for (_, resource, place), grants in by_place(side.grants).items():
        words = ["kafka-acls.sh", "--bootstrap-server", servers, "--add", "--allow-principal", side.principal]
        for grant in grants:
            words += ["--operation", _pascal(grant.rule.operation)]
        if resource is Resource.CLUSTER:
            words.append("--cluster")
        else:
            words += [_OPTIONS[resource], place.name]
            if place.pattern is RulePattern.PREFIXED:
                words += ["--resource-pattern-type", "prefixed"]
        yield shlex.join(words)


def _kafka_user(side: GrantedSide) -> dict[str, Any]:
    user = side.principal.partition(":")[2]
    spec: dict[str, Any] = {}
    if side.cluster.security.mechanism == "SCRAM-SHA-512":
        spec["authentication"] = {"type": "scram-sha-512"}
    elif side.cluster.security.tls.certificate_file is not None:
        spec["authentication"] = {"type": "tls"}
    acls = [
        {
            "resource": _resource(resource, place),
            "operations": [_pascal(grant.rule.operation) for grant in grants],
            "host": "*",
        }
        for (_, resource, place), grants in by_place(side.grants).items()
    ]
    spec["authorization"] = {"type": "simple", "acls": acls}
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaUser",
        "metadata": {
            "name": _NO_NAME.sub("-", user.lower().removeprefix("cn=")).strip("-."),
            "labels": {"strimzi.io/cluster": side.cluster.alias},
        },
        "spec": spec,
    }


def _resource(resource: Resource, place: RulePlace) -> dict[str, str]:
    if resource is Resource.CLUSTER:
        return {"type": "cluster"}
    # Strimzi has other words for patterns than Kafka.
    pattern = "prefix" if place.pattern is RulePattern.PREFIXED else "literal"
    return {"type": _TYPES[resource], "name": place.name, "patternType": pattern}


def _pascal(operation: str) -> str:
    """Format an operation as Kafka's tool and Strimzi have it: DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.split("_"))
