"""The format of the configuration file; its descriptions make up docs/configuration.md."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
)

from isthmus.config.sections.beside import AccessSection, ConfigsSection, LogSection, MetricsSection
from isthmus.config.sections.clientproperties import TAKEN_PROPERTIES, PropertyText
from isthmus.config.sections.fields import (
    Address,
    CertificatePatternText,
    GroupPatternText,
    Master,
    Name,
    Size,
    Text,
    Url,
    address_list,
    conf_text,
    single_item,
)
from isthmus.config.sections.mirrormaker import MirrorMakerSection
from isthmus.config.sections.network import Addresses, ProxySection, ZooKeeperSection
from isthmus.config.sections.schemas import SchemaRegistrySection, SchemasSection
from isthmus.config.sections.section import Section as Section
from isthmus.config.sections.tls import TlsSection
from isthmus.config.sections.topics import NamingSection, TopicsSection
from isthmus.config.sections.transform import TransformSection
from isthmus.config.sections.trees import TreeSection
from isthmus.model.cluster import CLIENT_ID, SaslMechanism, SecurityProtocol
from isthmus.model.configuration import LedgerSettings, SparkSettings
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.link import DataGapPolicy, DeletionPolicy, DivergencePolicy, Limits
from isthmus.model.offsetscopy import SECRET_CHARACTERS_MIN

_GROUPS: Final = GroupSettings()
_LIMITS: Final = Limits()
_SPARK: Final = SparkSettings()
_SYNC: Final = SyncSettings()
_LEDGER: Final = LedgerSettings()


class OAuthSection(Section):
    """The client-credentials grant of OAUTHBEARER (KIP-768)."""

    token_endpoint_url: Url = Field(description="Where tokens are issued: an http or https address.")
    client_id: Text = Field(description="The client id.")
    client_secret: SecretStr = Field(description="The client secret.")
    scope: Text | None = Field(None, description="The scope to ask for.")


class SecuritySection(Section):
    """Transport and login. By default there is neither TLS nor a login."""

    protocol: SecurityProtocol | None = Field(
        None,
        description=(
            "Kafka's security.protocol. Without it: SASL_SSL when a mechanism is given, SSL when "
            "only tls is given, PLAINTEXT otherwise."
        ),
    )
    mechanism: SaslMechanism | None = Field(None, description="Kafka's sasl.mechanism.")
    username: Text | None = Field(None, description="The user, for PLAIN and SCRAM.")
    password: SecretStr | None = Field(None, description="The password, for PLAIN and SCRAM.")
    tls: TlsSection | None = Field(None, description="Certificates, for SSL and SASL_SSL.")
    oauth: OAuthSection | None = Field(None, description="Where tokens come from, for OAUTHBEARER.")

    @property
    def resolved_protocol(self) -> SecurityProtocol:
        """The protocol given, or the one that follows from the other settings."""
        if self.protocol is not None:
            return self.protocol
        if self.mechanism is not None:
            return "SASL_SSL"
        return "PLAINTEXT" if self.tls is None else "SSL"


class NamesSection(Section):
    """How technical names on a cluster are made, so that lists show what users call topics and groups beside them."""

    topics: Text | None = Field(None, description="Names of topics, such as `{tenant}-{instance}-{env}-{topic}`.")
    groups: Text | None = Field(None, description="Names of groups, such as `{tenant}-{instance}-{env}-{group}`.")


Servers = Annotated[tuple[Address, ...], BeforeValidator(address_list)]


class LoginSection(Section):
    """Another way to be connected to the cluster: for links that name it, or for clients of a gateway."""

    bootstrap_servers: Servers = Field(
        (), description="Brokers of a listener of its own, for links. Without it, those of the cluster."
    )
    security: SecuritySection = Field(SecuritySection(), description="Transport and login there.")
    certificates: tuple[CertificatePatternText, ...] = Field(
        (),
        description=(
            "Clients that a gateway with `--tls-client-ca` logs in by this: subjects of their certificates as Kafka's "
            "brokers write them, such as `CN=orders,OU=apps,O=Example`; names, prefixes with a trailing *, or regular "
            "expressions between slashes that have to match the whole name (docs/gateway.md)."
        ),
    )


class ClusterSection(Section):
    """One Kafka cluster."""

    bootstrap_servers: Annotated[Servers, Field(min_length=1)] = Field(
        description="Brokers to ask first, as host:port; a list, or one text with commas."
    )
    cluster_id: Name | None = Field(
        None,
        description=(
            "The id that this cluster has to have (`isthmus cluster describe` shows it). If another one answers, this "
            "cluster is away, and nothing is read, written or created there. Without it the first that answers is the "
            "one, as long as a run or a command lasts; declared links know the ids of their clusters."
        ),
    )
    security: SecuritySection = Field(SecuritySection(), description="Transport and login of this cluster.")
    logins: dict[Name, LoginSection] = Field(
        {},
        description=(
            "Logins that links may use at this cluster instead of its own, by name; a link names them in "
            "`source_login` and `target_login` (docs/security.md). A gateway logs clients in by those that name their "
            "`certificates`."
        ),
    )
    addresses: Addresses = Field(
        {},
        description=(
            "Where brokers are reached, by the host:port that they advertise (or that is in bootstrap_servers), if "
            "that cannot be reached from here: behind NAT, forwarded ports, tunnels. Others are reached as advertised."
        ),
    )
    proxy: ProxySection | None = Field(
        None, description="The proxy of connections: `socks5://host:port`, `http://host:port`, or a section."
    )
    client_id: Name = Field(
        CLIENT_ID, description="Kafka's client.id where no link is at work, as in `isthmus cluster describe`."
    )
    properties: dict[str, PropertyText] = Field(
        {},
        description=(
            "Properties of Kafka's clients, by their own names. "
            f"Accepted are {', '.join(f'`{name}`' for name in TAKEN_PROPERTIES)}, and no others."
        ),
    )
    zookeeper: ZooKeeperSection | None = Field(
        None, description="Its ZooKeeper, if it has one: `host:port,host:port/chroot`, or a section."
    )
    names: NamesSection = Field(NamesSection(), description="How names of topics and groups are made there.")
    schema_registry: SchemaRegistrySection | None = Field(
        None, description="The schema registry of this cluster; `schemas` uses it (docs/schemas.md)."
    )
    offsets_copy_secret: Annotated[SecretStr, Field(min_length=SECRET_CHARACTERS_MIN)] | None = Field(
        None,
        description=(
            "The secret from which keys of this cluster's groups are derived, for links from it with "
            "`groups.offsets_copy: encrypted`: 32 random characters or more, as `openssl rand -hex 32` makes them "
            "(docs/groups.md)."
        ),
    )


class GroupsSection(Section):
    """The consumer groups whose positions a link carries."""

    include: tuple[GroupPatternText, ...] = Field(
        (),
        description=(
            "Groups to carry: a group's name, a prefix with a trailing *, or a regular expression between slashes that "
            "has to match the whole name. Nothing matches by default."
        ),
    )
    exclude: tuple[GroupPatternText, ...] = Field(
        (), description="Exceptions, written in the same way. Exclusion wins."
    )
    way: Literal["identity", "mapped", "timestamp"] = Field(
        "identity",
        description=(
            "How a position is translated: identity is the same offset, mapped the offset that the record "
            "got at the target, timestamp the first record not older than the record at the position less the margin."
        ),
    )
    margin_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        _GROUPS.margin_s, description="The margin of the way timestamp, in seconds: so much time is read again."
    )
    naming: NamingSection = Field(NamingSection(), description="Other names for groups at the target.")
    commit: bool = Field(
        _GROUPS.commit,
        description=(
            "Whether positions are committed at the target. Without it they are translated only: for checkpoints "
            "(mm2), `groups translate` and drills."
        ),
    )
    delete_at_target: bool = Field(
        _GROUPS.delete_at_target,
        description=(
            "Whether a group that is gone at the source is deleted at the target, if no consumer used it there. "
            "Needs READ on `__consumer_offsets` at the source."
        ),
    )
    offsets_copy: Literal["none", "all", "groups", "encrypted"] = Field(
        _GROUPS.offsets_copy.value,
        description=(
            "Whose commits are copied into topic `__consumer_offsets_<source cluster id>` of the target, beside being "
            "carried: those of all groups of the source, of the groups that the link selects, or of these, encrypted "
            "with a key for each group (docs/groups.md)."
        ),
    )


class LimitsSection(Section):
    """How much a link may take. Sizes are numbers of bytes, or texts such as `50 MiB`."""

    bytes_per_s: Size | None = Field(
        _LIMITS.bytes_per_s,
        description="Bytes copied per second, over the whole link. Without it, no limit.",
    )
    bytes_in_flight: Size = Field(
        _LIMITS.bytes_in_flight,
        description=(
            "Bytes a Spark task may have read that the target has not acknowledged yet; it bounds "
            "the memory of the task. A partition may have as much as is free, at most 8 MiB, and 256 KiB of its own "
            "whatever others have; one that is not written to keeps one batch."
        ),
    )


class TransactionsSection(Section):
    """The treatment of transactions. Committed transactions are always copied."""

    aborted: Literal["auto", "copy", "omit"] = Field(
        "auto",
        description=(
            "The treatment of records of aborted transactions, which only read_uncommitted consumers see. copy writes "
            "them into aborted transactions: if the target's brokers verify transactions, Kafka's default since "
            "3.6, a partition may then stop when a broker fails. omit lets control records take their offsets. "
            "auto copies them where that is exact and omits them elsewhere. Without ALTER on the target's cluster "
            "neither is exact: auto copies them then, and a partition may stop when a broker fails. isthmus plan "
            "shows which."
        ),
    )
    visibility: Literal["auto", "whole", "record"] = Field(
        "auto",
        description=(
            "How a transaction becomes visible to read_committed consumers of the target. record copies a committed "
            "transaction as ordinary records, so that they may see its beginning before its end, and for good after a "
            "failover. whole copies records in transactions there too, before it is known how they end: in each "
            "partition they see all of it or nothing. That takes ALTER on the target's cluster, and brokers that do "
            "not verify transactions (docs/guarantees.md). auto is whole where that is so, and record elsewhere. "
            "Topics that are compacted or mapped stay record. isthmus plan shows which is in force."
        ),
    )


class SyncSection(Section):
    """How a synchronous link of `isthmus link update --mode sync` holds acknowledgements (docs/links.md)."""

    lag_max_ms: Annotated[int, Field(ge=100)] = Field(
        _SYNC.lag_max_ms,
        description=(
            "How long an acknowledgement may wait, in milliseconds, while the follower gets nothing of its partition. "
            "Then the link is OUT_OF_SYNC."
        ),
    )
    out_of_sync: Literal["available", "consistent"] = Field(
        _SYNC.out_of_sync.value,
        description=(
            "The answer to writes then. available: they are acknowledged as by an asynchronous link, once the "
            "source's ledger has the first offset of each partition that the follower may lack. consistent: they are "
            "refused until the follower has caught up or an operator makes the link asynchronous."
        ),
    )
    raise_acks: bool = Field(
        _SYNC.raise_acks,
        description="Whether writes that ask for acks=1 are made to ask for acks=all, and wait as well.",
    )


class LinkSection(Section):
    """One direction: from a source cluster into a target cluster."""

    name: Name = Field(description="The link's name: letters, digits, '.', '_' and '-'. Unique.")
    source: Text = Field(description="The alias of the cluster to read from.")
    target: Text = Field(description="The alias of the cluster to write to.")
    client_id: Name | None = Field(
        None,
        description=(
            "Kafka's client.id of the link's connections, by which brokers keep quotas and write request logs. Without "
            "it, `isthmus-` and the link's name."
        ),
    )
    source_login: Name | None = Field(
        None, description="Which of the source's `logins` the link has there; without it, the cluster's own."
    )
    target_login: Name | None = Field(None, description="Which of the target's `logins` it has there.")
    properties: dict[str, PropertyText] = Field(
        {},
        description=(
            "Properties of Kafka's clients for this link alone, in place of those of its clusters: the same "
            "names, for one side only with `source.` or `target.` before them, such as `target.send.buffer.bytes`."
        ),
    )
    topics: TopicsSection = Field(TopicsSection(), description="Which topics are mirrored.")
    transform: Annotated[tuple[TransformSection, ...], BeforeValidator(single_item)] = Field(
        (),
        description=(
            "How records are changed on the way: one mapping as below, or a list of them with `topics` each, of which "
            "the first that matches a topic is for it. Its topics get mapped offsets; without `topics.offsets` that is "
            "auto (docs/transforms.md)."
        ),
    )
    groups: GroupsSection = Field(GroupsSection(), description="Which consumer groups are carried, and how.")
    configs: ConfigsSection = Field(ConfigsSection(), description="How topics' configurations follow the source.")
    access: AccessSection = Field(AccessSection(), description="Which access rules (ACLs) are carried.")
    limits: LimitsSection = Field(LimitsSection(), description="How much the link may take.")
    transactions: TransactionsSection = Field(TransactionsSection(), description="The treatment of transactions.")
    sync: SyncSection = Field(
        SyncSection(), description="How acknowledgements wait if the link is synchronous: declared links alone can be."
    )
    on_data_gap: DataGapPolicy = Field(
        "stop",
        description=(
            "The treatment of a partition whose source deleted records before they were copied: "
            "stop it, or record the gap and continue behind it."
        ),
    )
    on_divergence: DivergencePolicy = Field(
        "stop",
        description=(
            "The treatment of a topic whose source lost records that were copied (unclean leader election), or was "
            "deleted and created again: stop its partitions, or recover it as `isthmus link recover` does "
            "(docs/recovery.md)."
        ),
    )
    on_source_deleted: DeletionPolicy = Field(
        "keep",
        description=(
            "The treatment of a topic that was mirrored and that the source has deleted. keep: the target's stays and "
            "shows as SOURCE_DELETED. forget: it stays, and is forgotten as `isthmus forget` does. delete: the "
            "target's is deleted as well, once it is proven that the source's is gone and that the target's holds "
            "nothing else (docs/recovery.md). Topics that `topics.include` names are kept."
        ),
    )
    compaction_holes_max: Annotated[int, Field(ge=0)] = Field(
        1_000_000,
        description=(
            "How many offsets missing in a compacted partition are filled so that all others stay "
            "the same; a partition with more is refused."
        ),
    )
    topics_interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        5.0, description="How often new topics and partitions are looked for, in seconds."
    )
    mm2: MirrorMakerSection = Field(
        MirrorMakerSection(), description="Topics for tools of MirrorMaker 2: `true`, or a section as below."
    )


class SparkSection(Section):
    """How Spark is reached."""

    master: Master = Field(
        _SPARK.master,
        description="Spark's master URL: local[*] runs inside this process, spark://host:port not.",
    )
    conf: dict[str, Annotated[str, BeforeValidator(conf_text)]] = Field(
        {},
        description=(
            "Spark properties, passed on as they are. Never put secrets here: Spark shows its properties in its UI."
        ),
    )
    slots: Annotated[int, Field(ge=1)] | None = Field(
        _SPARK.slots,
        description=(
            "How many task slots to use, if Spark offers as many. Without it, all; all but one in the session of a "
            "program. An embedded Spark (local) keeps one of them free for hand-overs."
        ),
    )
    lease_term_s: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        _SPARK.lease_term_s,
        description="How long a Spark task owns its partitions until it is succeeded, in seconds.",
    )


class LedgerSection(Section):
    """The memory of Isthmus, in compacted topics named `__isthmus.*` on the target."""

    replication_factor: Annotated[int, Field(ge=1, le=32767)] | None = Field(
        _LEDGER.replication_factor,
        description="Replicas of the ledger's topics. Without it, the brokers' default.",
    )


class FabricSection(Section):
    """The whole file."""

    clusters: Annotated[dict[Name, ClusterSection], Field(min_length=1)] = Field(
        description=(
            "The clusters, each under an alias: a name for people. Two aliases that turn out to be one cluster, by its "
            "cluster id, are refused."
        )
    )
    links: tuple[LinkSection, ...] = Field((), description="The links: source, target and topics of each.")
    trees: tuple[TreeSection, ...] = Field(
        (), description="Distribution trees: producers on all clusters, every message once on each (docs/trees.md)."
    )
    schemas: SchemasSection | None = Field(
        None, description="How schemas go from one registry to all others (docs/schemas.md). Without it, nowhere."
    )
    spark: SparkSection = Field(SparkSection(), description="How Spark is reached.")
    ledger: LedgerSection = Field(LedgerSection(), description="How the ledger is kept.")
    log: LogSection = Field(LogSection(), description="Where the log is kept.")
    metrics: MetricsSection = Field(
        MetricsSection(), description="Where a run serves metrics and health (docs/metrics.md)."
    )
