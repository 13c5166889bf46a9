"""The report of a namespace of a cluster: its members, its attachments, and the writers that it allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from isthmus.access.enforcement import made_against_readers, made_rules
from isthmus.model.gateways.prepared import MaybeCommitted
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.reservation import Reservation
from isthmus.model.links.writability import KeptBy, NamespaceState, kept_by, namespace_state
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.problem import Problem, ProblemJson, problem_dict
from isthmus.model.registers import RESERVED, Registers, StatementJson
from isthmus.model.text.plain import plain

ASYNC_ONLY: Final = "async_only"


class AttachmentJson(TypedDict):
    """What a namespace follows or leads."""

    link: str
    role: Literal["leader", "follower"]
    namespace: str
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A link that a namespace is attached to: it `leads` where it is that link's source, else it follows."""

    link: str
    leads: bool
    other: Namespace
    other_cluster: str

    def as_dict(self) -> AttachmentJson:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "role": "leader" if self.leads else "follower",
            "namespace": str(self.other),
            "cluster": self.other_cluster,
        }


class InForceJson(TypedDict):
    """Whether access rules close a namespace to others; either the rules, or why they could not be read."""

    closed: bool
    open: NotRequired[list[str]]
    for_everybody: NotRequired[list[str]]
    denied_by_isthmus: NotRequired[list[str]]
    problem: NotRequired[ProblemJson]


class NamespaceReportJson(TypedDict):
    """A namespace of a cluster; null for what was not looked at."""

    cluster: str
    kind: NamespaceKind
    namespace: str
    prefix: str
    exact: bool
    reserved: bool
    state: Annotated[str, NamespaceState]
    kept_by: Annotated[str, KeptBy] | None
    bypass: Literal["possible"] | None
    waits_for: list[str]
    async_only: bool
    attached: list[AttachmentJson]
    members: list[str] | None
    empty: bool | None
    in_force: InForceJson | None
    aborted: list[Annotated[dict[str, Any], OpenTransaction]]
    in_doubt: list[str]
    overlapping: list[str]
    problem: ProblemJson | None
    said: list[StatementJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport:
    """A namespace as it stands now. `members` are the names in it, `None` where they could not be read (`problem`);
    `overlapping` are others of the cluster that share names with it, and `in_force` is what access rules do for it
    where it is reserved. `aborted` are transactions that were open in it when its reservation was lifted, and those
    `in_doubt` may have been committed at their source. `waits_for` is what is left until what was stated of it is in
    force, in words: `state` follows from it. With `has_gateway` one stands in front of the cluster.
    """

    cluster: str
    namespace: Namespace
    registers: Registers
    attached: tuple[Attachment, ...] = ()
    members: tuple[str, ...] | None = None
    overlapping: tuple[Namespace, ...] = ()
    problem: Problem | None = None
    in_force: Reservation | Problem | None = None
    aborted: tuple[OpenTransaction, ...] = ()
    in_doubt: tuple[MaybeCommitted, ...] = ()
    waits_for: tuple[str, ...] = ()
    has_gateway: bool = False

    @property
    def state(self) -> NamespaceState:
        """The state of the namespace: the writers that it allows, as far as that is in force."""
        return namespace_state(self.is_reserved, self.waits_for)

    @property
    def follows(self) -> bool:
        """Whether a link writes to it."""
        return any(not each.leads for each in self.attached)

    @property
    def is_reserved(self) -> bool:
        """Whether only a link is to write to it."""
        return bool(self._value(RESERVED))

    @property
    def is_async_only(self) -> bool:
        """Whether it may be in no synchronous link."""
        return bool(self._value(ASYNC_ONLY))

    @property
    def kept_by(self) -> KeptBy | None:
        """The means that keeps others out of it, `None` if it is not reserved."""
        return kept_by(self.registers, has_gateway=self.has_gateway)

    def _value(self, name: str) -> Any:
        return next((register.decoded for register in self.registers if register.name == name), None)

    def as_dict(self) -> NamespaceReportJson:
        """Plain values under stable names."""
        return {
            "cluster": self.cluster,
            "kind": self.namespace.kind,
            "namespace": str(self.namespace),
            "prefix": self.namespace.prefix,
            "exact": self.namespace.is_exact,
            "reserved": self.is_reserved,
            "state": self.state.value,
            "kept_by": None if self.kept_by is None else self.kept_by.value,
            "bypass": None if self.kept_by is None else self.kept_by.bypass,
            "waits_for": list(self.waits_for),
            "async_only": self.is_async_only,
            "attached": plain(self.attached),
            "members": None if self.members is None else list(self.members),
            "empty": None if self.members is None else not self.members,
            "in_force": _in_force(self),
            "aborted": plain(self.aborted),
            "in_doubt": [each.in_words for each in self.in_doubt],
            "overlapping": [str(other) for other in self.overlapping],
            "problem": plain(self.problem),
            "said": plain(self.registers),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The names a cluster has, by kind of namespace; `problems` where they could not be read."""

    names: Mapping[NamespaceKind, tuple[str, ...]] = field(default_factory=dict)
    problems: Mapping[NamespaceKind, Problem] = field(default_factory=dict)


def _in_force(report: NamespaceReport) -> InForceJson | None:
    if report.in_force is None:
        return None
    if isinstance(report.in_force, Problem):
        return {"closed": False, "problem": problem_dict(report.in_force)}
    made = [
        f"{rule.grant} on {rule.subject}"
        for rule in (*made_rules(report.registers), *made_against_readers(report.registers))
    ]
    found = report.in_force.as_dict()
    return {
        "closed": found["closed"],
        "open": found["open"],
        "for_everybody": found["for_everybody"],
        "denied_by_isthmus": made,
    }
