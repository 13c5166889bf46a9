"""Converts the sections of the file, which have been checked, into the model's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import SecretStr

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
    OAuthSection,
    SecuritySection,
)
from isthmus.config.sections.schemas import SchemaRegistrySection
from isthmus.config.sections.start import start_of
from isthmus.config.sections.tls import TlsSection
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
from isthmus.model.gateways.synchrony import OutOfSync, SyncSettings
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings, PrincipalPattern
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.link import Limits, Link, Transactions
from isthmus.model.mirrormaker import MirrorMakerSettings, MirrorMakerTopics, SyncsPlace
from isthmus.model.offsets import OffsetPolicy, RemotePolicy
from isthmus.model.offsetscopy import OffsetsCopy
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
    section = fabric.spark
    return SparkSettings(
        master=section.master,
        conf=dict(section.conf),
        slots=section.slots,
        lease_term_s=section.lease_term_s,
    )


def ledger_of(fabric: FabricSection) -> LedgerSettings:
    """Return the settings for the ledger."""
    return LedgerSettings(replication_factor=fabric.ledger.replication_factor)


def log_of(fabric: FabricSection, folder: Path) -> LogSettings:
    """Return the settings for the log file."""
    section = fabric.log
    file = None if section.file is None else str((folder / Path(section.file).expanduser()).absolute())
    return LogSettings(file=file, size_bytes=section.size, keep=section.keep)


def metrics_of(fabric: FabricSection) -> MetricsSettings:
    """Return the address of a run's metrics."""
    section = fabric.metrics
    return MetricsSettings(listen=section.listen, any_interface=section.any_interface, partitions=section.partitions)


def _cluster(alias: str, section: ClusterSection, folder: Path, origins: Origins) -> Cluster:
    above, registry = ("clusters", alias), section.schema_registry
    return Cluster(
        alias=alias,
        bootstrap_servers=section.bootstrap_servers,
        cluster_id=section.cluster_id or "",
        security=replace(_security(section.security, folder), origins=_own(origins, (*above, "security"))),
        zookeeper=_zookeeper(section.zookeeper, folder, _own(origins, (*above, "zookeeper"))),
        addresses=tuple(section.addresses.items()),
        proxy=None if section.proxy is None else _proxy(section.proxy, folder, _own(origins, (*above, "proxy"))),
        properties=properties_of(section.properties),
        client_id=section.client_id,
        names=names_of(section.names),
        logins=tuple(
            Login(
                name=name,
                bootstrap_servers=each.bootstrap_servers,
                security=replace(
                    _security(each.security, folder), origins=_own(origins, (*above, "logins", name, "security"))
                ),
                certificates=tuple(map(NamePattern.split, each.certificates)),
            )
            for name, each in section.logins.items()
        ),
        schema_registry=None if registry is None else _registry(alias, registry, folder, origins),
        offsets_copy_secret=_secret(section.offsets_copy_secret),
    )


def _registry(alias: str, section: SchemaRegistrySection, folder: Path, origins: Origins) -> SchemaRegistry:
    return SchemaRegistry(
        alias=alias,
        url=section.url,
        username=section.username,
        password=_secret(section.password),
        token=_secret(section.token),
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
            schemas=SchemaRoute(
                primary=primary,
                target=each.schema_registry,
                naming=settings.naming(each.alias),
                interval_s=settings.interval_s,
                gate=settings.gate,
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
    return Proxy(
        kind=kind,
        address=address,
        username=username,
        password=_secret(section.password),
        tls=Tls() if section.tls is None else _tls(section.tls, folder),
        origins=origins,
    )


def _zookeeper(section: ZooKeeperSection | None, folder: Path, origins: tuple[SecretOrigin, ...]) -> ZooKeeper | None:
    if section is None:
        return None
    return ZooKeeper(
        connect=section.connect,
        username=section.username,
        password=_secret(section.password),
        tls=None if section.tls is None else _tls(section.tls, folder),
        origins=origins,
    )


def _security(section: SecuritySection, folder: Path) -> Security:
    return Security(
        protocol=section.resolved_protocol,
        tls=Tls() if section.tls is None else _tls(section.tls, folder),
        mechanism=section.mechanism,
        username=section.username,
        password=_secret(section.password),
        oauth=None if section.oauth is None else _oauth(section.oauth),
    )


def _tls(section: TlsSection, folder: Path) -> Tls:
    return Tls(
        ca_file=_file(section.ca_file, folder),
        certificate_file=_file(section.certificate_file, folder),
        key_file=_file(section.key_file, folder),
        key_password=_secret(section.key_password),
        verify_hostname=section.verify_hostname,
    )


def _oauth(section: OAuthSection) -> OAuth:
    return OAuth(
        token_endpoint_url=section.token_endpoint_url,
        client_id=section.client_id,
        client_secret=Secret(section.client_secret.get_secret_value()),
        scope=section.scope,
    )


def link_of(section: LinkSection, source: Cluster, target: Cluster, folder: Path, aliases: Iterable[str] = ()) -> Link:
    """Return one link between its clusters, of all those of the file; its naming may be a class in `folder`.

    :raises ConfigError: A cluster lacks the login that the link has there.
    """
    return Link(
        name=section.name,
        source=_end(section, "source", source.logged_in(section.source_login or "")),
        target=_end(section, "target", target.logged_in(section.target_login or "")),
        topics=TopicSettings(
            include=tuple(map(TopicPattern.parse, section.topics.include)),
            exclude=tuple(map(TopicPattern.parse, section.topics.exclude)),
            naming=naming_of(section.topics.naming, source.alias, target.alias, folder, aliases),
            offsets=OffsetPolicy(section.topics.offsets),
            start=start_of(section.topics.start),
            remote=RemotePolicy(section.topics.remote),
            replication_factor=section.topics.replication_factor,
        ),
        groups=_groups(section.groups),
        configs=_configs(section.configs),
        access=_access(section.access),
        limits=limits_of(section.limits),
        on_data_gap=section.on_data_gap,
        on_divergence=section.on_divergence,
        on_source_deleted=section.on_source_deleted,
        compaction_holes_max=section.compaction_holes_max,
        transactions=Transactions(
            aborted=AbortedPolicy(section.transactions.aborted),
            visibility=Visibility(section.transactions.visibility),
        ),
        sync=SyncSettings(
            lag_max_ms=section.sync.lag_max_ms,
            out_of_sync=OutOfSync(section.sync.out_of_sync),
            raise_acks=section.sync.raise_acks,
        ),
        topics_interval_s=section.topics_interval_s,
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
    return Limits(bytes_per_s=section.bytes_per_s, bytes_in_flight=section.bytes_in_flight)


def mirror_maker_of(section: MirrorMakerSection) -> MirrorMakerSettings:
    """Return the settings for tools of MirrorMaker 2."""
    return MirrorMakerSettings(
        offset_syncs=SyncsPlace(section.offset_syncs),
        offset_lag_max=section.offset_lag_max,
        checkpoints=section.checkpoints,
        checkpoints_interval_s=section.checkpoints_interval_s,
        heartbeats=section.heartbeats,
        heartbeats_interval_s=section.heartbeats_interval_s,
        heartbeats_replication=section.heartbeats_replication,
    )


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
    return GroupSettings(
        include=tuple(map(GroupPattern.parse, section.include)),
        exclude=tuple(map(GroupPattern.parse, section.exclude)),
        way=section.way,
        margin_s=section.margin_s,
        naming=group_naming_of(section.naming),
        commit=section.commit,
        delete_at_target=section.delete_at_target,
        offsets_copy=OffsetsCopy(section.offsets_copy),
    )


def _configs(section: ConfigsSection) -> ConfigSettings:
    return ConfigSettings(
        sync=section.sync,
        exclude=tuple(map(PropertyPattern.parse, section.exclude)),
        keep=tuple(
            KeptConfigs(topics=TopicPattern.parse(topics), properties=tuple(map(PropertyPattern.parse, properties)))
            for topics, properties in section.keep.items()
        ),
        use_defaults_from=section.use_defaults_from,
        interval_s=section.interval_s,
    )


def _access(section: AccessSection) -> AccessSettings:
    return AccessSettings(
        policy=AccessPolicy(section.policy),
        exclude_principals=tuple(map(PrincipalPattern.parse, section.exclude_principals)),
        interval_s=section.interval_s,
    )


def _secret(given: SecretStr | None) -> Secret | None:
    return None if given is None else Secret(given.get_secret_value())


def _file(given: str | None, folder: Path) -> str | None:
    return None if given is None else str(folder / Path(given).expanduser())
