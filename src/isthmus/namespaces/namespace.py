"""The report of a namespace of a cluster: its members, its attachments, and the writers that it allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from isthmus.access.enforcement import made_against_readers, made_rules
from isthmus.model.gateways.prepared import MaybeCommitted
from isthmus.model.kafka.access import Rule
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.reservation import Reservation
from isthmus.model.links.writability import KeptBy, NamespaceState, kept_by, namespace_state
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.problem import Problem
from isthmus.model.registers import RESERVED, Registers, Statement
from isthmus.model.text.plain import FormMark, Hidden, IfKnown, PlainValue, computed_field, texts

ASYNC_ONLY: Final = "async_only"


def _role(leads: bool) -> Literal["leader", "follower"]:
    return "leader" if leads else "follower"


def _say_doubts(in_doubt: Iterable[MaybeCommitted]) -> list[str]:
    return [each.in_words for each in in_doubt]


def _name_rules(rules: Iterable[Rule]) -> list[str]:
    return [f"{rule.grant} on {rule.subject}" for rule in rules]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment(PlainValue):
    """The namespaces that a namespace follows or leads.

    A link that a namespace is attached to: it `leads` where it is that link's source, else it follows.
    """

    link: str
    leads: Annotated[bool, "role", _role]
    other: Annotated[Namespace, "namespace", str]
    other_cluster: Annotated[str, "cluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """Whether access rules close a namespace to others; either the rules, or why they could not be read."""

    closed: bool
    open: IfKnown[list[str]] = None
    for_everybody: IfKnown[list[str]] = None
    denied_by_isthmus: IfKnown[list[str]] = None
    problem: IfKnown[Problem] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport(PlainValue):
    """A namespace of a cluster; null for values that were not examined.

    `members` are the names in it, `None` where they could not be read (`problem`); `overlapping` are others of the
    cluster that share names with it, and `in_force` is what access rules do for it where it is reserved. `aborted` are
    transactions that were open in it when its reservation was lifted, and those `in_doubt` may have been committed at
    their source. `waits_for` is what is left until what was stated of it is in force, in words: `state` follows from
    it. With `has_gateway` one stands in front of the cluster.
    """

    cluster: str
    namespace: Annotated[Namespace, FormMark.EMBEDDED]
    waits_for: tuple[str, ...] = ()
    attached: tuple[Attachment, ...] = ()
    members: tuple[str, ...] | None = None
    in_force: Hidden[Reservation | Problem | None] = None
    aborted: tuple[OpenTransaction, ...] = ()
    in_doubt: Annotated[tuple[MaybeCommitted, ...], _say_doubts] = ()
    overlapping: Annotated[tuple[Namespace, ...], texts] = ()
    problem: Problem | None = None
    registers: Hidden[Registers]
    has_gateway: Hidden[bool] = False

    @property
    def follows(self) -> bool:
        """Whether a link writes to it."""
        return any(not each.leads for each in self.attached)

    @computed_field(before="waits_for")
    def is_reserved(self) -> Annotated[bool, "reserved"]:
        """Whether only a link is to write to it."""
        return bool(self._value(RESERVED))

    @computed_field(before="waits_for")
    def state(self) -> NamespaceState:
        """The state of the namespace: the writers that it allows, as far as that is in force."""
        return namespace_state(self.is_reserved, self.waits_for)

    @computed_field(before="attached")
    def is_async_only(self) -> Annotated[bool, "async_only"]:
        """Whether it may be in no synchronous link."""
        return bool(self._value(ASYNC_ONLY))

    @computed_field(before="waits_for")
    def kept_by(self) -> KeptBy | None:
        """The means that keeps others out of it, `None` if it is not reserved."""
        return kept_by(self.registers, has_gateway=self.has_gateway)

    def _value(self, name: str) -> Any:
        return next((register.decoded for register in self.registers if register.name == name), None)

    @computed_field(before="waits_for")
    def bypass(self) -> Literal["possible"] | None:
        return None if self.kept_by is None else self.kept_by.bypass

    @computed_field(before="in_force")
    def empty(self) -> bool | None:
        return None if self.members is None else not self.members

    @computed_field(before="aborted")
    def rules(self) -> Annotated[InForce | None, "in_force"]:
        """What access rules do for it where it is reserved."""
        found = self.in_force
        if found is None:
            return None
        if isinstance(found, Problem):
            return InForce(closed=False, problem=found)
        return InForce(
            closed=not found.open,
            open=_name_rules(found.open),
            for_everybody=_name_rules(found.everybody),
            denied_by_isthmus=_name_rules((*made_rules(self.registers), *made_against_readers(self.registers))),
        )

    @computed_field
    def said(self) -> tuple[Statement, ...]:
        """All statements in force."""
        return self.registers


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The names a cluster has, by kind of namespace; `problems` where they could not be read."""

    names: Mapping[NamespaceKind, tuple[str, ...]] = field(default_factory=dict)
    problems: Mapping[NamespaceKind, Problem] = field(default_factory=dict)
