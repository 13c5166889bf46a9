"""The rules between the parts of a configuration, beyond the format of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path as Folder
from typing import Final

from pydantic import SecretStr

from isthmus.config.reading.document import ConfigDocument, Path, format_path
from isthmus.config.reading.problems import Mistake, nearest
from isthmus.config.schemarules import schema_rules
from isthmus.config.sections.beside import MetricsSection
from isthmus.config.sections.clientproperties import link_property_problem, property_problem
from isthmus.config.sections.naming import group_naming_of, names_of, naming_of
from isthmus.config.sections.schema import ClusterSection, FabricSection, LinkSection, Section, SecuritySection
from isthmus.config.sections.start import start_of
from isthmus.config.sections.topics import TopicsSection
from isthmus.config.transforms import offsets_of, registry_problems, transform_problems
from isthmus.config.treerules import reserved_topics, tree_rules
from isthmus.errors import ConfigError
from isthmus.model.link import Link
from isthmus.model.offsets import EARLIEST, OffsetPolicy
from isthmus.model.process.listening import ListenAddress
from isthmus.model.process.sparkconf import refuse_property

_BY_REFERENCE: Final = "Better keep it outside: ${file:/path}, ${file:/path:key} or ${env:NAME}."


def shape_rules(fabric: FabricSection, folder: Folder) -> Iterator[Mistake]:
    """Yield contradictions that can be seen without looking at other clusters' topics; `folder` is that of the file."""
    for alias, cluster in fabric.clusters.items():
        yield from _security(("clusters", alias, "security"), cluster.security)
        for name, login in cluster.logins.items():
            yield from _security(("clusters", alias, "logins", name, "security"), login.security)
        yield from _certificates(("clusters", alias, "logins"), cluster)
        for name, text in cluster.properties.items():
            if (problem := property_problem(name, text)) is not None:
                yield Mistake(("clusters", alias, "properties", name), *problem)
        try:
            names_of(cluster.names)
        except ConfigError as error:
            yield Mistake(("clusters", alias, "names"), error.message, error.hint)
    yield from _names(fabric.links)
    yield from tree_rules(fabric.trees, frozenset(fabric.clusters))
    yield from _listening(("metrics", "listen"), fabric.metrics)
    yield from _properties_of_spark(fabric.spark.conf)
    yield from schema_rules({alias: each.schema_registry for alias, each in fabric.clusters.items()}, fabric.schemas)
    for position, link in enumerate(fabric.links):
        yield from _ends(("links", position), link, fabric)
        try:
            naming_of(link.topics.naming, link.source, link.target, folder)
        except ConfigError as error:
            yield Mistake(("links", position, "topics", "naming"), error.message, error.hint)
        try:
            group_naming_of(link.groups.naming)
        except ConfigError as error:
            yield Mistake(("links", position, "groups", "naming"), error.message, error.hint)
        yield from section_problems(("links", position), link)
        yield from _aliases(("links", position, "mm2"), link)
        yield from _check_offsets_copy(("links", position, "groups", "offsets_copy"), link, fabric)
        source = fabric.clusters.get(link.source)
        if source is not None and source.schema_registry is None:
            yield from registry_problems(("links", position), link)


def _certificates(path: Path, cluster: ClusterSection) -> Iterator[Mistake]:
    """Yield mistakes about certificates. Overlapping patterns are no mistake: only the certificates show it."""
    named: dict[str, str] = {}
    for name, login in cluster.logins.items():
        for certificate in login.certificates:
            if named.setdefault(certificate, name) != name:
                yield Mistake(
                    (*path, name, "certificates"),
                    f"has {certificate}, which login {named[certificate]} has as well",
                    "A certificate stands for one login: take it out of one of the two.",
                )


def _listening(path: Path, metrics: MetricsSection) -> Iterator[Mistake]:
    if metrics.listen is None or metrics.any_interface or ListenAddress.parse(metrics.listen).is_loopback:
        return
    yield Mistake(
        path,
        "is an address that other hosts could reach, and there is no login",
        "Listen at 127.0.0.1; or if that is meant, set metrics.any_interface: true.",
    )


def _properties_of_spark(conf: Mapping[str, str]) -> Iterator[Mistake]:
    for name, text in conf.items():
        if (refusal := refuse_property(name, text)) is not None:
            yield Mistake(("spark", "conf", name), f"is {text}, which {refusal.message}", refusal.hint)


def section_problems(path: Path, link: LinkSection) -> Iterator[Mistake]:
    """Yield contradictions within one link, wherever it is written."""
    for name, text in link.properties.items():
        if (problem := link_property_problem(name, text)) is not None:
            yield Mistake((*path, "properties", name), *problem)
    yield from reserved_topics((*path, "topics", "include"), link.topics.include)
    yield from _start((*path, "topics", "start"), link)
    yield from _remote((*path, "topics", "remote"), link.topics)
    yield from _visibility((*path, "transactions", "visibility"), link)
    yield from transform_problems(path, link)


def _aliases(path: Path, link: LinkSection) -> Iterator[Mistake]:
    """Yield mistakes about aliases. With the naming mm2 the separator is part of the naming, which is checked there."""
    settings = link.mm2
    is_on = settings.checkpoints or settings.heartbeats or settings.offset_syncs != "off"
    for alias in (link.source, link.target):
        if is_on and link.topics.naming.mm2 is None and "." in alias:
            yield Mistake(
                path,
                f"cannot be: alias {alias} holds a dot, so that names such as {alias}.heartbeats would be ambiguous",
                "Give the cluster another alias, or name topics by mm2 with another separator.",
            )


def _check_offsets_copy(path: Path, link: LinkSection, fabric: FabricSection) -> Iterator[Mistake]:
    """Yield mistakes about a copy of positions: missing settings, and settings that would undo its redaction."""
    way, source = link.groups.offsets_copy, fabric.clusters.get(link.source)
    if way == "none":
        return
    if way != "all" and not link.groups.include:
        yield Mistake(path, f"is {way}, and the link selects no groups", "Name some in groups.include, or write all.")
    if way == "encrypted" and source is not None and source.offsets_copy_secret is None:
        yield Mistake(
            path,
            f"is encrypted, and {link.source} has no secret to derive keys from",
            f"Give clusters.{link.source}.offsets_copy_secret, best by reference: ${{file:/path}}.",
        )
    for other in fabric.links:
        ends = (other.source, other.target) == (link.source, link.target)
        if ends and other.groups.offsets_copy not in ("none", way) and other.name > link.name:
            yield Mistake(
                path,
                f"is {way}, and link {other.name} copies into the same topic with {other.groups.offsets_copy}",
                "Set the same in all links from one cluster into another: who reads the topic reads all of it.",
            )


def _start(path: Path, link: LinkSection) -> Iterator[Mistake]:
    try:
        start = start_of(link.topics.start)
    except ConfigError as error:
        yield Mistake(path, error.message, error.hint)
        return
    if start != EARLIEST and offsets_of(link) == "same":
        yield Mistake(
            path,
            f"is {link.topics.start}, and the same offsets begin where the source begins",
            "Set topics.offsets: mapped (or auto) to begin elsewhere: docs/offsets.md.",
        )


def _visibility(path: Path, link: LinkSection) -> Iterator[Mistake]:
    if link.transactions.visibility != "whole":
        return
    if link.transactions.aborted == "omit":
        yield Mistake(
            path,
            "is whole, and while a transaction is open it is not known whether its records are to be left out",
            "Set transactions.aborted: auto, or transactions.visibility: record.",
        )
    if link.topics.offsets == "mapped":
        yield Mistake(
            path,
            "is whole, and where offsets are mapped records are copied once it is known how their transaction ends",
            "Set topics.offsets: same, or transactions.visibility: record.",
        )


def _remote(path: Path, topics: TopicsSection) -> Iterator[Mistake]:
    if topics.remote == "copy":
        return
    if topics.start != "earliest":
        yield Mistake(
            path,
            f"is {topics.remote}, and topics.start also sets where to begin: {topics.start}",
            "Leave one of the two out.",
        )


def one_writer(links: tuple[Link, ...]) -> Iterator[Mistake]:
    """No two links may write the same topic of the same cluster, unless both map offsets.

    A mistake is yielded for every topic that one of the two names literally. Overlapping patterns alone are no proof:
    only the topics of the source show it.
    """
    for (_, former), (position, latter) in combinations(enumerate(links), 2):
        if former.target.alias != latter.target.alias or not _contend(former, latter):
            continue
        written = [
            link.topics.name_topics({*former.topics.literals, *latter.topics.literals}) for link in (former, latter)
        ]
        for topic in sorted(written[0].sources.keys() & written[1].sources.keys()):
            yield Mistake(
                ("links", position, "topics"),
                f"writes {topic} into {latter.target.alias}, which {former.name} does already",
                "A topic with the source's offsets has one writer: exclude it in one of the two links, or set "
                "topics.offsets: mapped in both.",
            )


def _contend(former: Link, latter: Link) -> bool:
    """Return whether they may be two writers of a topic; the result of auto is known only when the
    topics are examined.
    """
    return OffsetPolicy.SAME in (former.topics.offsets, latter.topics.offsets)


def warnings(fabric: FabricSection, document: ConfigDocument, referenced: set[Path]) -> Iterator[str]:
    """Yield sentences about settings that are allowed but unwise."""
    for path in _secrets(fabric, ()):
        if path not in referenced:
            where = f"{document.place(path)}: {format_path(path)}"
            yield f"{where} is a secret written out. {_BY_REFERENCE}"
    for position, link in enumerate(fabric.links):
        if not link.topics.include and not (link.mm2.heartbeats and link.mm2.heartbeats_replication):
            where = document.place(("links", position))
            yield f"{where}: the link {link.name} includes no topics."
        for name, selected in (("topics", link.topics), ("groups", link.groups)):
            if selected.include and ("*" in selected.exclude or set(selected.include) <= set(selected.exclude)):
                where = document.place(("links", position, name))
                yield f"{where}: the link {link.name} excludes all {name} that it includes: none is selected."
        if link.mm2.checkpoints and not link.groups.include:
            where = document.place(("links", position, "mm2"))
            yield (
                f"{where}: the link {link.name} writes checkpoints (mm2) of no group: name some in its groups.include."
            )


def _security(path: Path, security: SecuritySection) -> Iterator[Mistake]:
    protocol = security.resolved_protocol
    if protocol.startswith("SASL_"):
        yield from _login(path, security, protocol)
    else:
        for key in ("mechanism", "username", "password", "oauth"):
            if getattr(security, key) is not None:
                yield Mistake(
                    (*path, key),
                    f"contradicts the protocol {protocol}, which has no login",
                    "Give a mechanism and the protocol SASL_SSL, or remove it.",
                )
    if security.tls is not None and not protocol.endswith("SSL"):
        yield Mistake(
            (*path, "tls"),
            f"contradicts the protocol {protocol}, which has no TLS",
            "Use SSL or SASL_SSL, or remove the section.",
        )
    if security.tls is not None and security.tls.certificate_file is None:
        for key in ("key_file", "key_password"):
            if getattr(security.tls, key) is not None:
                yield Mistake(
                    (*path, "tls", key),
                    "is of no use without certificate_file",
                    "Give the certificate that belongs to the key.",
                )


def _login(path: Path, security: SecuritySection, protocol: str) -> Iterator[Mistake]:
    if security.mechanism is None:
        yield Mistake(
            (*path, "mechanism"),
            f"is missing: {protocol} needs one",
            "Choose PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        )
        return
    needed, refused = ["username", "password"], ["oauth"]
    if security.mechanism == "OAUTHBEARER":
        needed, refused = refused, needed
    for key in needed:
        if getattr(security, key) is None:
            yield Mistake(
                (*path, key),
                f"is missing: {security.mechanism} needs it",
                f"Give {' and '.join(needed)}.",
            )
    for key in refused:
        if getattr(security, key) is not None:
            yield Mistake(
                (*path, key),
                f"contradicts the mechanism {security.mechanism}, which does not use it",
                f"Remove it; {security.mechanism} takes {' and '.join(needed)}.",
            )


def _names(links: tuple[LinkSection, ...]) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for position, link in enumerate(links):
        if link.name in seen:
            yield Mistake(
                ("links", position, "name"),
                f"is {link.name}, which is the name of links[{seen[link.name]}] already",
                "Give every link a name of its own.",
            )
        seen.setdefault(link.name, position)


def _ends(path: Path, link: LinkSection, fabric: FabricSection) -> Iterator[Mistake]:
    ends: Mapping[str, str] = {"source": link.source, "target": link.target}
    for key, alias in ends.items():
        if alias not in fabric.clusters:
            near = nearest(alias, fabric.clusters)
            known = f"The clusters are: {', '.join(fabric.clusters)}."
            yield Mistake(
                (*path, key),
                "is not the alias of a cluster",
                known if near is None else f"Did you mean {near}? {known}",
            )
    for key, alias, login in (
        ("source_login", link.source, link.source_login),
        ("target_login", link.target, link.target_login),
    ):
        known_logins = fabric.clusters[alias].logins if alias in fabric.clusters else {}
        if login is not None and alias in fabric.clusters and login not in known_logins:
            near = nearest(login, known_logins)
            yield Mistake(
                (*path, key),
                f"is none of clusters.{alias}.logins",
                f"Its logins are: {', '.join(known_logins) or 'none'}." if near is None else f"Did you mean {near}?",
            )
    if link.source == link.target:
        yield Mistake(
            (*path, "target"),
            "is the source itself",
            "A link goes from one cluster into another.",
        )


def _secrets(value: object, path: Path) -> Iterator[Path]:
    """Yield the paths of all secrets that are given."""
    if isinstance(value, SecretStr):
        yield path
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _secrets(item, (*path, name))
