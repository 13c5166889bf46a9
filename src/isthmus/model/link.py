"""A link: the topics and groups that it mirrors from one cluster into another, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from isthmus.model.cluster import Cluster
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.copyflags import FlagsHeader
from isthmus.model.gateways.synchrony import SYNC, Mode, SyncSettings
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.access import AccessSettings
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.links.transform import Transform, transform_for
from isthmus.model.mirrormaker import MirrorMakerNames, MirrorMakerSettings
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import LogicalNames, MirrorMakerNaming, SourceTopic, TemplateNaming
from isthmus.model.onerror import OnError
from isthmus.model.selection import TopicSettings
from isthmus.model.trees.positions import OffsetFlags
from isthmus.model.trees.switching import BeginEpoch, GoingOver, LaneBegin, LeafDoubt

DataGapPolicy = Literal["stop", "continue"]
DivergencePolicy = Literal["stop", "recover"]
DeletionPolicy = Literal["keep", "forget", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a link. `bytes_per_s` is for the whole link, `None` being no limit.

    `bytes_in_flight` bounds what one Spark task has read and the target has not yet acknowledged, but for a small floor
    that each partition has.
    """

    bytes_per_s: int | None = None
    bytes_in_flight: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The settings for transactions: how the records of `aborted` ones are treated, and when records of a transaction
    become visible. Committed ones are always copied.
    """

    aborted: AbortedPolicy = AbortedPolicy.AUTO
    visibility: Visibility = Visibility.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorRole:
    """The part of a link in a distribution tree: the tree's name, and the level at which it distributes.

    `others` are the other clusters of the tree, each with the names of the distributors that copy to it from the same
    source: it can have received records from there only by these. `flags` is the header of copy flags, if there is one.
    Its target is one of `leaves`, those of the subtree; `begins` are the offsets from which it receives records, if
    another leaf received those before, and `epochs` the leader epochs of the source for the earlier records; while the
    distributor switches to another one, `going` names it. A leaf that it left by force receives what it lacks up to
    `ends`, `None` for any other. `doubts` are of leaves that may lack records, and `former` are all that it left.
    `inbound` are the names and the levels of the distributors that may copy to the source; `offset_flags` is the place
    of positions' copy flags at the target.
    """

    tree: str
    level: int
    flags: FlagsHeader | None = None
    others: tuple[tuple[Cluster, frozenset[str]], ...] = ()
    inbound: tuple[tuple[str, int], ...] = ()
    offset_flags: OffsetFlags = "producer-id"
    leaves: tuple[str, ...] = ()
    begins: tuple[LaneBegin, ...] = ()
    epochs: tuple[BeginEpoch, ...] = ()
    going: GoingOver | None = None
    ends: tuple[LaneBegin, ...] | None = None
    doubts: tuple[LeafDoubt, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def has_allowance(self) -> bool:
        """Whether it states at its source how far it goes: it may have to leave its target without asking it."""
        return len(self.leaves) > 1 and self.ends is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An ordered pair of clusters and what goes from the source into the target: topics, and groups' positions.

    Of `transforms` the first that matches a topic changes its records on the way. `on_data_gap` is the policy for a
    partition whose source deleted records before they were copied, `on_divergence` for a topic whose source lost
    records that were, and `on_source_deleted` for one that was deleted at the source; `compaction_holes_max` is the
    number of offsets missing in a source partition up to which they are filled, and beyond which the partition is
    refused. `mm2` are the settings for tools of MirrorMaker 2. `distributor` is the part of one in a tree; all other
    links mirror. Of a declared link `mode` may be synchronous, as `sync` says, and `mode_said` names the statement that
    set it: a new statement starts the mode again.
    """

    name: str
    source: Cluster
    target: Cluster
    topics: TopicSettings
    transforms: tuple[Transform, ...] = ()
    groups: GroupSettings = field(default_factory=GroupSettings)
    configs: ConfigSettings = field(default_factory=ConfigSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    limits: Limits = Limits()
    transactions: Transactions = Transactions()
    mode: Mode = "async"
    mode_said: str = ""
    sync: SyncSettings = field(default_factory=SyncSettings)
    on_data_gap: DataGapPolicy = "stop"
    on_divergence: DivergencePolicy = "stop"
    on_source_deleted: DeletionPolicy = "keep"
    compaction_holes_max: int = 1_000_000
    topics_interval_s: float = 5.0
    mm2: MirrorMakerSettings = field(default_factory=MirrorMakerSettings)
    distributor: DistributorRole | None = None

    @property
    def is_synchronous(self) -> bool:
        return self.mode == SYNC

    @property
    def level(self) -> int:
        """The level of a distributor, 0 of any other link."""
        return 0 if self.distributor is None else self.distributor.level

    @property
    def tree(self) -> str:
        """The tree of a distributor, "" of any other link."""
        return "" if self.distributor is None else self.distributor.tree

    @property
    def names(self) -> LogicalNames:
        """The names that users give topics and groups: by the templates of the source, or else by those that give other
        names.
        """
        own, ways = self.source.names, (self.topics.naming, self.groups.naming)
        topics, groups = (way.source if isinstance(way, TemplateNaming) else None for way in ways)
        return LogicalNames(topics=own.topics or topics, groups=own.groups or groups)

    def transform_of(self, topic: SourceTopic) -> Transform | None:
        """Return how records of a topic of the source are changed on the way, `None` for as they are. Heartbeats of
        MirrorMaker 2 have a form of their own, and are left alone.
        """
        theirs = self.topics.mirror_maker
        if theirs is not None and theirs.is_carried(topic):
            return None
        return transform_for(self.transforms, topic)

    def is_changed_by(self, topic: SourceTopic, digest: str) -> bool:
        """Return whether that transform is of this generation, "" standing for none."""
        found = self.transform_of(topic)
        return not digest if found is None else found.is_generation(digest)

    def has_dead_letters(self, topic: SourceTopic) -> bool:
        """Return whether records of a topic of the source that cannot be changed are kept in a topic of their own."""
        transform = self.transform_of(topic)
        return transform is not None and transform.on_error is OnError.DEAD_LETTER

    def upstream(self, name: SourceTopic) -> tuple[str, ...]:
        """Return the clusters by which a topic of the source has come when it is at the target, the nearest first; none
        if names do not show it.
        """
        naming = self.topics.naming
        return naming.upstream(name) if isinstance(naming, MirrorMakerNaming) else ()

    @property
    def namespaces(self) -> tuple[NamespaceMap, ...]:
        """The pairs of namespaces of a declared link."""
        naming = self.topics.naming
        return naming.maps if isinstance(naming, NamespaceNaming) else ()

    @property
    def mm2_names(self) -> MirrorMakerNames:
        """The names of MirrorMaker 2's topics between the two clusters."""
        naming = self.topics.naming
        separator = naming.separator if isinstance(naming, MirrorMakerNaming) else "."
        return MirrorMakerNames(source_alias=self.source.alias, target_alias=self.target.alias, separator=separator)
