"""Converts the sections of the file, which have been checked, into the model's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from isthmus.config.reading.document import Path as KeyPath
from isthmus.config.schemarules import schema_settings
from isthmus.config.sections.beside import AccessSection, ConfigsSection
from isthmus.config.sections.clientproperties import EndOfLink, properties_of, side_properties
from isthmus.config.sections.mirrormaker import MirrorMakerSection
from isthmus.config.sections.naming import group_naming_of, names_of, naming_of
from isthmus.config.sections.network import ProxySection, ZooKeeperSection, proxy_parts
from isthmus.config.sections.schema import (
    ClusterSection,
    FabricSection,
    GroupsSection,
    LimitsSection,
    LinkSection,
    SecuritySection,
)
from isthmus.config.sections.schemas import SchemaRegistrySection
from isthmus.config.sections.start import start_of
from isthmus.config.sections.tls import TlsSection
from isthmus.config.taking import take
from isthmus.config.transforms import offsets_of, transforms_of
from isthmus.model.cluster import (
    CLIENT_ID,
    Cluster,
    Login,
    OAuth,
    Proxy,
    SchemaRegistry,
    SchemaRoute,
    Secret,
    SecretOrigin,
    Security,
    Tls,
    ZooKeeper,
)
from isthmus.model.configsettings import ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.configuration import LedgerSettings, MetricsSettings, SparkSettings
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessSettings, PrincipalPattern
from isthmus.model.link import Limits, Link, Transactions
from isthmus.model.mirrormaker import MirrorMakerSettings, MirrorMakerTopics
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.process.logsettings import LogSettings
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.patterns import NamePattern
from isthmus.model.text.reference import FileReference

Origins = Mapping[KeyPath, tuple[Secret | FileReference, ...]]
"""By the path of a text its parts, if some of them are files."""
_RENEWED: Final[frozenset[KeyPath]] = frozenset(
    {
        ("username",),
        ("password",),
        ("token",),
        ("tls", "key_password"),
        ("oauth", "client_id"),
        ("oauth", "client_secret"),
        ("oauth", "scope"),
    }
)
"""The values that may change while a run is going, below the sections that hold logins; all others are fixed at its
start.
"""


def clusters_of(fabric: FabricSection, folder: Path, origins: Origins) -> tuple[Cluster, ...]:
    """Return all clusters; relative paths of PEM files start at `folder`."""
    return _with_schema_routes(
        fabric, [_cluster(alias, each, folder, origins) for alias, each in fabric.clusters.items()]
    )


def links_of(fabric: FabricSection, clusters: tuple[Cluster, ...], folder: Path) -> tuple[Link, ...]:
    """Return all links, holding the clusters at their ends."""
    by_alias = {cluster.alias: cluster for cluster in clusters}
    links = [link_of(each, by_alias[each.source], by_alias[each.target], folder, by_alias) for each in fabric.links]
    return tuple(_with_mirror_maker(link, links[:position]) for position, link in enumerate(links))


def spark_of(fabric: FabricSection) -> SparkSettings:
    """Return the settings for Spark."""
    return take(SparkSettings, fabric.spark, conf=dict(fabric.spark.conf))


def ledger_of(fabric: FabricSection) -> LedgerSettings:
    """Return the settings for the ledger."""
    return take(LedgerSettings, fabric.ledger)


def log_of(fabric: FabricSection, folder: Path) -> LogSettings:
    """Return the settings for the log file."""
    section = fabric.log
    file = None if section.file is None else str((folder / Path(section.file).expanduser()).absolute())
    return take(LogSettings, section, file=file, size_bytes=section.size)


def metrics_of(fabric: FabricSection) -> MetricsSettings:
    """Return the address of a run's metrics."""
    return take(MetricsSettings, fabric.metrics)


def _cluster(alias: str, section: ClusterSection, folder: Path, origins: Origins) -> Cluster:
    above, registry = ("clusters", alias), section.schema_registry
    return take(
        Cluster,
        section,
        alias=alias,
        cluster_id=section.cluster_id or "",
        security=replace(_security(section.security, folder), origins=_own(origins, (*above, "security"))),
        zookeeper=_zookeeper(section.zookeeper, folder, _own(origins, (*above, "zookeeper"))),
        addresses=tuple(section.addresses.items()),
        proxy=None if section.proxy is None else _proxy(section.proxy, folder, _own(origins, (*above, "proxy"))),
        properties=properties_of(section.properties),
        names=names_of(section.names),
        logins=tuple(
            take(
                Login,
                each,
                name=name,
                security=replace(
                    _security(each.security, folder), origins=_own(origins, (*above, "logins", name, "security"))
                ),
                certificates=tuple(map(NamePattern.split, each.certificates)),
            )
            for name, each in section.logins.items()
        ),
        schema_registry=None if registry is None else _registry(alias, registry, folder, origins),
    )


def _registry(alias: str, section: SchemaRegistrySection, folder: Path, origins: Origins) -> SchemaRegistry:
    return take(
        SchemaRegistry,
        section,
        alias=alias,
        tls=Tls() if section.tls is None else _tls(section.tls, folder),
        origins=_own(origins, ("clusters", alias, "schema_registry")),
    )


def _with_schema_routes(fabric: FabricSection, clusters: Sequence[Cluster]) -> tuple[Cluster, ...]:
    """Return the clusters with the routes of schemas."""
    settings = schema_settings(fabric.schemas)
    primary = next((each.schema_registry for each in clusters if settings and each.alias == settings.primary), None)
    if settings is None or primary is None:
        return tuple(clusters)
    return tuple(
        each
        if each.schema_registry is None or each.alias == settings.primary
        else replace(
            each,
            schemas=take(
                SchemaRoute,
                settings,
                primary=primary,
                target=each.schema_registry,
                naming=settings.naming(each.alias),
            ),
        )
        for each in clusters
    )


def _own(origins: Origins, above: KeyPath) -> tuple[SecretOrigin, ...]:
    """Return the origins of the texts below a section that may change."""
    return tuple(
        SecretOrigin(tuple(map(str, path[len(above) :])), parts)
        for path, parts in origins.items()
        if path[: len(above)] == above and path[len(above) :] in _RENEWED
    )


def _proxy(section: ProxySection, folder: Path, origins: tuple[SecretOrigin, ...]) -> Proxy:
    kind, username, address = proxy_parts(section.url)
    return take(
        Proxy,
        section,
        kind=kind,
        address=address,
        username=username,
        tls=Tls() if section.tls is None else _tls(section.tls, folder),
        origins=origins,
    )


def _zookeeper(section: ZooKeeperSection | None, folder: Path, origins: tuple[SecretOrigin, ...]) -> ZooKeeper | None:
    if section is None:
        return None
    return take(
        ZooKeeper,
        section,
        tls=None if section.tls is None else _tls(section.tls, folder),
        origins=origins,
    )


def _security(section: SecuritySection, folder: Path) -> Security:
    return take(
        Security,
        section,
        protocol=section.resolved_protocol,
        tls=Tls() if section.tls is None else _tls(section.tls, folder),
        oauth=None if section.oauth is None else take(OAuth, section.oauth),
    )


def _tls(section: TlsSection, folder: Path) -> Tls:
    return take(Tls, section, folder)


def link_of(section: LinkSection, source: Cluster, target: Cluster, folder: Path, aliases: Iterable[str] = ()) -> Link:
    """Return one link between its clusters, of all those of the file; its naming may be a class in `folder`.

    :raises ConfigError: A cluster lacks the login that the link has there.
    """
    return take(
        Link,
        section,
        source=_end(section, "source", source.logged_in(section.source_login or "")),
        target=_end(section, "target", target.logged_in(section.target_login or "")),
        topics=take(
            TopicSettings,
            section.topics,
            include=tuple(map(TopicPattern.parse, section.topics.include)),
            exclude=tuple(map(TopicPattern.parse, section.topics.exclude)),
            naming=naming_of(section.topics.naming, source.alias, target.alias, folder, aliases),
            offsets=OffsetPolicy(offsets_of(section)),
            start=start_of(section.topics.start),
        ),
        transforms=transforms_of(section.transform, str(folder)),
        groups=_groups(section.groups),
        configs=_configs(section.configs),
        access=_access(section.access),
        limits=limits_of(section.limits),
        transactions=take(Transactions, section.transactions),
        sync=take(SyncSettings, section.sync),
        mm2=mirror_maker_of(section.mm2),
    )


def _end(section: LinkSection, side: EndOfLink, cluster: Cluster) -> Cluster:
    """Return a cluster with the link's own connection settings."""
    return replace(
        cluster,
        client_id=section.client_id or f"{CLIENT_ID}-{section.name}",
        properties=side_properties(section.properties, side, cluster.properties),
    )


def limits_of(section: LimitsSection) -> Limits:
    """Return the limits of a link."""
    return take(Limits, section)


def mirror_maker_of(section: MirrorMakerSection) -> MirrorMakerSettings:
    """Return the settings for tools of MirrorMaker 2."""
    return take(MirrorMakerSettings, section)


def _with_mirror_maker(link: Link, earlier: Sequence[Link]) -> Link:
    """Return a link with its treatment of MirrorMaker 2's topics. Of several links between two clusters the first
    mirrors their heartbeats: each topic has one writer.
    """
    if not link.mm2.is_on:
        return link
    ends = link.source.alias, link.target.alias
    is_first = not any(
        (other.source.alias, other.target.alias) == ends and other.mm2.mirrors_heartbeats for other in earlier
    )
    topics = MirrorMakerTopics(
        names=link.mm2_names,
        heartbeats=link.mm2.mirrors_heartbeats and is_first,
        keeps_apart=link.mm2.heartbeats and not link.mm2.heartbeats_replication,
    )
    return replace(link, topics=replace(link.topics, mirror_maker=topics))


def _groups(section: GroupsSection) -> GroupSettings:
    return take(
        GroupSettings,
        section,
        include=tuple(map(GroupPattern.parse, section.include)),
        exclude=tuple(map(GroupPattern.parse, section.exclude)),
        naming=group_naming_of(section.naming),
    )


def _configs(section: ConfigsSection) -> ConfigSettings:
    return take(
        ConfigSettings,
        section,
        exclude=tuple(map(PropertyPattern.parse, section.exclude)),
        keep=tuple(
            KeptConfigs(topics=TopicPattern.parse(topics), properties=tuple(map(PropertyPattern.parse, properties)))
            for topics, properties in section.keep.items()
        ),
    )


def _access(section: AccessSection) -> AccessSettings:
    exclude = tuple(map(PrincipalPattern.parse, section.exclude_principals))
    return take(AccessSettings, section, exclude_principals=exclude)
