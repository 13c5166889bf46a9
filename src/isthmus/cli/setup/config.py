"""`isthmus config`: check the configuration file, or show its resolved values."""

from __future__ import annotations

import asyncio
import enum
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli import oneoff
from isthmus.cli.logs import log_into, note
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.saying import unread_in_words
from isthmus.cli.tables.columns import Cells, Column
from isthmus.clusters.certificates import require_certificates
from isthmus.config.overrides import variables
from isthmus.config.sections.clientproperties import written_properties
from isthmus.config.transforms import written_transforms
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.cluster import Cluster, Proxy, SchemaRegistry, Secret, Security
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.access import AccessSettings
from isthmus.model.link import Link
from isthmus.model.naming import IDENTITY, MirrorMakerNaming, NameTemplate, PythonNaming, TemplateNaming
from isthmus.model.offsets import written_start
from isthmus.model.schemas.content import SchemaSettings
from isthmus.model.selection import TopicSettings
from isthmus.model.text.patterns import NamePattern
from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import TreeSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnswerT = TypeVar("AnswerT")

# Spark's own default for spark.redaction.regex, and its replacement text.
_SECRET_PROPERTY: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
_MASK: Final = str(Secret(""))

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Check the configuration file, or show it resolved."""


@app.command()
def check(
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Report every mistake of the file and of PEM files it names, or a summary of its contents. No cluster is
    contacted."""
    found = config.find(path)
    configuration = config.load(found)
    require_certificates(configuration, str(found))
    render(
        {
            "file": str(found),
            "clusters": [cluster.alias for cluster in configuration.clusters],
            "links": [link.name for link in configuration.links],
            "variables": variables(os.environ),
            "warnings": configuration.warnings,
        },
        output,
    )


@app.command()
def show(
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the resolved configuration: references replaced, defaults filled in, secrets masked."""
    document = resolve_configuration(load_configuration(path))
    if output.is_table or output is OutputFormat.NAME:
        leaves = _flat(document, "")
        rows = [{"key": key, "value": value} for key, value in leaves if value is not None]
        render(rows, output, columns=(Column("key", Cells.NAME), Column("value", Cells.PROSE)))
    else:
        render(document, output)


def load_configuration(path: Path | None) -> Configuration:
    """Return the configuration of a command; print its warnings on stderr.

    :raises ConfigError: When there is none, or it cannot be used.
    """
    configuration = oneoff.build_configuration(path) or config.load(path)
    log_into(configuration.log)
    for warning in configuration.warnings:
        note(warning, level=logging.WARNING)
        console.print(Text(printable(f"Warning: {warning}"), style="yellow"))
    return configuration


def file_of(path: Path | None) -> Path | None:
    """Return the file of a command; `None` if its clusters were named by -b.

    :raises ConfigError: There is none.
    """
    return None if oneoff.is_named() else config.find(path)


def load_with_declared(path: Path | None, *links: str | None) -> Configuration:
    """Return the configuration with the declarations on its clusters: links, and targets of distributors. The clusters
    are not asked if only such `links` are wanted that are mirrors of the file.

    :raises ConfigError: There is none, or it cannot be used.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    configuration = load_configuration(path)
    if links and {each.name for each in configuration.links if not each.tree} >= set(links):
        return configuration
    configuration = asyncio.run(_read_declared(configuration))
    if not configuration.links:
        message = "there are no links: write them into the file, or declare them (isthmus link create)"
        if configuration.unread:
            message = f"no link is known, and {unread_in_words(configuration.unread)}"
        elif configuration.left_out:
            names = ", ".join(configuration.left_out)
            message = (
                "no declared link can be run between clusters of the file: isthmus link list gives the reason for "
                f"{names}"
            )
        console.print(Text(printable(f"Warning: {message}"), style="yellow"))
    return configuration


async def _read_declared(configuration: Configuration) -> Configuration:
    async with await AsyncFabric.open(configuration, declared=True) as fabric:
        return fabric.configuration


def ask_fabric(configuration: Configuration, ask: Callable[[AsyncFabric], Coroutine[Any, Any, AnswerT]]) -> AnswerT:
    """Return a fabric's answer to one question. Less is loaded for it than for `Fabric`, which has all verbs ready."""

    async def run() -> AnswerT:
        async with AsyncFabric(configuration) as fabric:
            return await ask(fabric)

    return asyncio.run(run())


def resolve_configuration(configuration: Configuration) -> Row:
    """Return the configuration in the form of the file, with every key and without secrets."""
    return {
        "clusters": {
            cluster.alias: {
                "bootstrap_servers": list(cluster.bootstrap_servers),
                "security": _plain(cluster.security),
                "logins": {
                    each.name: {
                        "bootstrap_servers": list(each.bootstrap_servers),
                        "security": _plain(each.security),
                        "certificates": [str(pattern) for pattern in each.certificates],
                    }
                    for each in cluster.logins
                },
                "zookeeper": None if cluster.zookeeper is None else _plain(cluster.zookeeper),
                "addresses": dict(cluster.addresses),
                "proxy": None if cluster.proxy is None else _proxy(cluster.proxy),
                "properties": written_properties(cluster.properties),
                "client_id": cluster.client_id,
                "names": {
                    "topics": None if cluster.names.topics is None else str(cluster.names.topics),
                    "groups": None if cluster.names.groups is None else str(cluster.names.groups),
                },
                "schema_registry": None if cluster.schema_registry is None else _registry(cluster.schema_registry),
                "offsets_copy_secret": _plain(cluster.offsets_copy_secret),
            }
            for cluster in configuration.clusters
        },
        "links": [
            {
                **_fields(link),
                "client_id": link.source.client_id,
                "source_login": link.source.login or None,
                "target_login": link.target.login or None,
                "properties": _link_properties(link, configuration),
            }
            for link in configuration.links
            if not link.tree
        ],
        "trees": [_tree(settings) for settings in configuration.trees],
        "schemas": None if configuration.schemas is None else _schemas(configuration.schemas),
        "spark": {
            **_fields(configuration.spark),
            "conf": {
                name: _MASK if _SECRET_PROPERTY.search(name) else value
                for name, value in configuration.spark.conf.items()
            },
        },
        "ledger": _plain(configuration.ledger),
        "metrics": _plain(configuration.metrics),
        "log": {"file": configuration.log.file, "size": configuration.log.size_bytes, "keep": configuration.log.keep},
    }


def _link_properties(link: Link, configuration: Configuration) -> dict[str, str]:
    """Return the properties of a link's connections that differ from those of its clusters."""
    beside = {cluster.alias: cluster.properties for cluster in configuration.clusters}
    return {
        f"{side}.{name}": text
        for side, cluster in (("source", link.source), ("target", link.target))
        for name, text in written_properties(cluster.properties, beside[cluster.alias]).items()
    }


def _registry(registry: SchemaRegistry) -> Row:
    shown = {name: _plain(getattr(registry, name)) for name in ("url", "username", "password", "token")}
    # The defaults of TLS would contradict an address without it.
    return {**shown, "tls": _plain(registry.tls) if registry.url.startswith("https:") else None}


def _tree(settings: TreeSettings) -> Row:
    tree, own = settings.tree, _fields(settings)
    del own["tree"]
    return {"name": tree.name, "clusters": plain(tree.root), **own, "header": _plain(tree.header)}


def _schemas(schemas: SchemaSettings) -> Row:
    return {
        "primary": schemas.primary,
        "subjects": {alias: str(template) for alias, template in schemas.templates.items()},
        "interval_s": schemas.interval_s,
        "gate": {"values": list(map(str, schemas.gate.values)), "keys": list(map(str, schemas.gate.keys))},
    }


def _proxy(proxy: Proxy) -> Row:
    user = "" if proxy.username is None else f"{proxy.username}@"
    shown = {"url": f"{proxy.kind}://{user}{proxy.address}", "password": _plain(proxy.password)}
    return {**shown, "tls": _plain(proxy.tls)} if proxy.kind == "relay" else shown


def _plain(value: object) -> object:
    if isinstance(value, Cluster):
        return value.alias
    if isinstance(value, Secret | NamePattern | NameTemplate | enum.Enum):
        return str(value)
    if value == IDENTITY:
        return "identity"
    if isinstance(value, MirrorMakerNaming):
        return {"mm2": {"separator": value.separator}}
    if isinstance(value, TemplateNaming):
        return {"template": _fields(value)}
    if isinstance(value, PythonNaming):
        return {"python": value.spec}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _fields(value: DataclassInstance) -> dict[str, object]:
    shown = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, TopicSettings):
        shown["start"] = written_start(value.start)
        # It follows from `mm2` of the link.
        del shown["mirror_maker"]
    if isinstance(value, ConfigSettings):
        shown["keep"] = {str(kept.topics): list(map(str, kept.properties)) for kept in value.keep}
    if isinstance(value, AccessSettings):
        # They are attached to declared links.
        del shown["principals"]
    if isinstance(value, Link):
        # Distributors are in no file: their trees are. Nor is an operator's statement about a declared link's mode.
        for name in ("distributor", "mode", "mode_said", "transforms"):
            del shown[name]
        shown["transform"] = written_transforms(value.transforms)
    if isinstance(value, Security):
        # The origin of a text is no key of the file.
        del shown["origins"]
        if not value.protocol.endswith("SSL"):
            # The defaults of TLS would contradict a protocol without TLS.
            del shown["tls"]
    return shown


def _flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves with their dotted paths; a list of plain values is a leaf."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _flat(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for position, item in enumerate(value):
            yield from _flat(item, f"{path}[{position}]")
    else:
        yield path, value
