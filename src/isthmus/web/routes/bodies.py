"""The bodies of requests: their fields, and the limits of these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt, model_validator

from isthmus.config.taking import take
from isthmus.fabric.answers import Filters, Keeping
from isthmus.model.kafka.assignment import Assignment
from isthmus.model.links.declaration import ASYNC
from isthmus.model.links.recovery import RecoveryWay, SetAside
from isthmus.model.namespace import Namespace, NamespaceKind, NamespaceMap
from isthmus.web.desk import LinkLimits

_NUMBER_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1
_DEPTH_MAX: Final = 50
"""Nodes of a tree have at least two parts, so that so many within each other are more than any tree has."""
Text = Annotated[str, Field(max_length=300)]
_Patterns = Annotated[tuple[Text, ...], Field(max_length=1000)]
_Number = Annotated[StrictInt, Field(ge=-_NUMBER_MAX, le=_NUMBER_MAX)]
_Scalar = StrictBool | _Number | FiniteFloat | Text | None
Bytes = Annotated[StrictInt, Field(ge=1, le=_NUMBER_MAX)]
_Values = dict[Text, _Scalar | Annotated[list[_Scalar], Field(max_length=1000)]]
Settings = Annotated[
    _Values,
    Field(max_length=100, description="Keys of links[] in the file, such as limits.bytes_per_s; null for the default."),
]
_OfTree = Annotated[
    _Values,
    Field(max_length=100, description="Keys of trees[] in the file, such as header.name; null for the default."),
]


class Body(BaseModel):
    """The base of all bodies: an unknown member is refused."""

    model_config = ConfigDict(extra="forbid")


class FiltersBody(Body):
    """The selection of a link, and the configurations not to sync: each list replaces the one in force, null leaves
    it."""

    topics_include: _Patterns | None = None
    topics_exclude: _Patterns | None = None
    groups_include: _Patterns | None = None
    groups_exclude: _Patterns | None = None
    configs_exclude: _Patterns | None = None

    @property
    def filters(self) -> Filters:
        """Return the filters for the fabric."""
        return Filters(**self.model_dump())


class TargetBody(Body):
    """The leaf that a distributor is to copy to. With `force` the change does not wait for the present leaf, which may
    be gone; with `resend`, which needs an admin, messages that the present leaf may lack are sent to the other leaf as
    well, and may come twice.
    """

    to: Text
    force: StrictBool = False
    resend: StrictBool = False

    @model_validator(mode="after")
    def _is_possible(self) -> TargetBody:
        if self.resend and not self.force:
            raise ValueError("give force: true with resend: nothing is sent again in good order")
        return self


class PlaceBody(Body):
    """Where a cluster comes into a tree: beside another one, among the parts of a node that another one is in, or above
    all others.
    """

    above: StrictBool = False
    beside: Text | None = None
    among: Text | None = None
    level: Annotated[StrictInt, Field(ge=1, le=_NUMBER_MAX)] | None = None
    without_left: StrictBool = False

    @model_validator(mode="after")
    def _is_one_place(self) -> PlaceBody:
        if [self.above, self.beside is not None, self.among is not None].count(True) != 1:
            raise ValueError("give above: true, or a cluster for beside or among")
        return self


class NeighbourBody(Body):
    """Beside which cluster of a tree another place is."""

    beside: Text
    level: Annotated[StrictInt, Field(ge=1, le=_NUMBER_MAX)] | None = None


class MapBody(Body):
    """A namespace of the source, and that of the target which follows it: the same one where none is named."""

    kind: NamespaceKind = "topic"
    source: Text
    target: Text | None = None
    exact: bool = False

    @property
    def map(self) -> NamespaceMap:
        """Return the map for the fabric.

        :raises ConfigError: One of them can be no namespace.
        """
        target = self.source if self.target is None else self.target
        sides = (Namespace.of(prefix, self.kind, is_exact=self.exact) for prefix in (self.source, target))
        return NamespaceMap(source=next(sides), target=next(sides))


Maps = Annotated[list[MapBody], Field(max_length=1000)]


_Keep = Annotated[
    list[Text], Field(max_length=100, description="With enforce: who may go on writing, as User:isthmus.")
]
_SuperUser = Annotated[bool, Field(description="With enforce: the link is a super user, beyond all rules.")]


class MapsBody(Body):
    """Namespaces; all of them where none is named."""

    attached: Maps = Field(default_factory=list)

    @property
    def maps(self) -> tuple[NamespaceMap, ...]:
        """Return the maps for the fabric.

        :raises ConfigError: One of them can be no namespace.
        """
        return tuple(each.map for each in self.attached)


class AttachBody(MapsBody):
    """Namespaces that are to follow, and whether access rules keep all others out of them."""

    enforce: Annotated[bool, Field(description="Make access rules keep all others out of the names that follow.")] = (
        False
    )
    keep: _Keep = Field(default_factory=list)
    super_user: _SuperUser = False

    @property
    def closing(self) -> Keeping | None:
        """Return the part about closing as the fabric takes it.

        :raises ConfigError: It names principals to keep, but asks for no rules.
        """
        return Keeping.from_options(self.keep, has_super_user=self.super_user, is_enforced=self.enforce)


class EndBody(Body):
    """A cluster of the file; with its id it has to be that one."""

    alias: Text
    cluster_id: Text = ""


class LinkBody(AttachBody):
    """A link to be declared, in the words of `isthmus link describe -o json`."""

    link: Annotated[Text, Field(min_length=1)]
    source: EndBody | Text
    target: EndBody | Text
    mode: Text = ASYNC
    settings: Settings = Field(default_factory=dict)

    @property
    def ends(self) -> tuple[EndBody, EndBody]:
        """Return both clusters."""
        source, target = (EndBody(alias=end) if isinstance(end, str) else end for end in (self.source, self.target))
        return source, target


class LinkChangeBody(Body):
    """The changes of a declared link."""

    mode: Text | None = None
    settings: Settings = Field(default_factory=dict)


def _shallow(value: list[Any] | dict[str, Any]) -> list[Any] | dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(_DEPTH_MAX):
        level = [part for each in level for part in _parts(each)]
    if level:
        raise ValueError(f"at most {_DEPTH_MAX} nodes may be within each other")
    return value


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class TreeChangeBody(Body):
    """The changes of a declared tree, by dotted key of trees[]."""

    settings: _OfTree = Field(default_factory=dict)


class TreeBody(TreeChangeBody):
    """A tree to be declared: its clusters as nested lists, as in the file, with ids that they have to have, if any."""

    name: Annotated[Text, Field(min_length=1)]
    clusters: Annotated[list[Any] | dict[str, Any], AfterValidator(_shallow)]
    cluster_ids: Annotated[dict[Text, Text], Field(max_length=1000)] = Field(default_factory=dict)


class LimitsBody(Body):
    """How much a link may take; null for the default."""

    bytes_per_s: Bytes | None = None
    bytes_in_flight: Bytes | None = None

    @property
    def limits(self) -> LinkLimits:
        """Return the limits as they are answered."""
        return take(LinkLimits, self)


class SettingsBody(Body):
    """The settings to change of a link of the file, and those to take from the file again."""

    settings: Settings = Field(default_factory=dict)
    unset: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)


class TopicsBody(Body):
    """Topics, as at the target; all that are concerned where none is named."""

    topics: _Patterns = Field(default_factory=tuple)


class ForgetBody(TopicsBody):
    """As `TopicsBody`; with `delete_at_target` these are deleted at the target before, as their source was."""

    delete_at_target: bool = False


_Seconds = Annotated[FiniteFloat, Field(ge=0, le=86_400)]
_Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
_Instant = Annotated[str, Field(max_length=100, description="ms, RFC 3339, or how long ago: 2h.")]


class LeaveBody(MapsBody):
    """Namespaces that are to follow no more, all of them where none is named; how long any wait may take."""

    timeout_s: _Seconds = 60.0


class PromoteBody(LeaveBody):
    """The same; `quiet_s` is the required time without any write to the source, `max_lag` the number of its
    records that may stay behind, for good.
    """

    quiet_s: _Seconds = 5.0
    max_lag: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0


class ReverseBody(Body):
    """The name of the new link, the way back."""

    as_link: Annotated[Text, Field(min_length=1)]
    quiet_s: _Seconds = 10.0
    timeout_s: _Seconds = 60.0


class RecoverBody(Body):
    """Topics to bring back, those that have diverged where none is named, and how: null for the way in which it was
    begun, or else rebuild. With `quarantine` records that only the target has are set aside although they stay.
    """

    topics: Annotated[list[_Topic], Field(max_length=1000)] = Field(default_factory=list)
    way: RecoveryWay | None = None
    quarantine: StrictBool = False
    quiet_s: _Seconds = 2.0
    timeout_s: _Seconds = 60.0


class ReplayBody(Body):
    """The records of a topic that were set aside, and their destination: the source's topic if no other is named, for
    dead letters the target's. These are changed by the link's present transform, unless `raw`.
    """

    topic: _Topic
    cluster: Text | None = None
    into: _Topic | None = None
    kind: SetAside = SetAside.DIVERGED
    producer: _Number | None = None
    raw: StrictBool = False


class DrillBody(Body):
    """The group to try a failover of, and how many records to compare in each partition."""

    group: Text
    records: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 1000


class TreeVerifyBody(Body):
    """Which topics of a tree to look at: all of them where none is named."""

    topics: Annotated[list[_Topic], Field(max_length=1000)] = Field(default_factory=list)


class VerifyBody(TreeVerifyBody):
    """The topics to compare: all of the link if none is named."""

    since: _Instant | None = None
    until: _Instant | None = None
    allow_lag: bool = False


class WaitBody(Body):
    """The conditions of a wait, as after `isthmus wait --for`: all have to hold; for one topic, or for the link; and
    the timeout."""

    conditions: Annotated[list[Text], Field(min_length=1, max_length=10)]
    topic: _Topic | None = None
    timeout_s: _Seconds = 300.0


class AssignmentBody(Body):
    """The brokers that are to have a partition, its leader first."""

    topic: _Topic
    partition: Annotated[StrictInt, Field(ge=0, le=_PARTITION_MAX)]
    replicas: Annotated[list[Annotated[StrictInt, Field(ge=0, le=_PARTITION_MAX)]], Field(min_length=1, max_length=100)]


class ReassignmentBody(Body):
    """The moves, as `isthmus cluster reassign --plan -o json` prints them, and their maximum rate."""

    version: Annotated[StrictInt, Field(ge=1, le=1)] = 1
    partitions: Annotated[list[AssignmentBody], Field(min_length=1, max_length=10_000)]
    throttle_bytes_per_s: Bytes | None = None

    @property
    def assignments(self) -> list[Assignment]:
        """Return the assignments for the fabric."""
        return [Assignment(each.topic, each.partition, tuple(each.replicas)) for each in self.partitions]


class RegistriesBody(Body):
    """The clusters whose registries are meant, all where none is named; `delete_gone` deletes for good the schemas
    that the primary one does not have.
    """

    clusters: Annotated[list[Text], Field(max_length=1000)] = Field(default_factory=list)
    delete_gone: StrictBool = False


class PrimaryBody(Body):
    """The cluster whose registry becomes the primary one. With `force` the present one, which is gone, is not asked."""

    cluster: Text
    force: StrictBool = False


class NamespaceBody(Body):
    """A namespace to be declared, in the words of `isthmus namespace describe -o json`."""

    kind: NamespaceKind = "topic"
    namespace: Text
    exact: bool = False
    reserved: bool = False
    async_only: bool = False


class NamespaceChangeBody(Body):
    """The changes of a namespace; null leaves a value."""

    reserved: bool | None = None
    async_only: bool | None = None
    enforce: Annotated[bool | None, Field(description="Have access rules keep others out, or take them back.")] = None
    keep: _Keep = Field(default_factory=list)
    super_user: _SuperUser = False

    @property
    def closing(self) -> Keeping | None:
        """Return the part about closing, as for namespaces that are to follow."""
        return Keeping.from_options(
            self.keep, has_super_user=self.super_user, is_enforced=self.enforce, is_reserved=self.reserved
        )

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return self.reserved is None and self.async_only is None and self.enforce is None


def sent_members(body: BaseModel) -> dict[str, Any]:
    """Return the members that were sent, for the log."""
    return body.model_dump(mode="json", exclude_unset=True)
