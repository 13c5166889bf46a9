"""Whether others may write to a namespace: the statements about it compared with the answers of all leaders. Pure.

KIP-986 asks whether namespaces should have states too, since a reservation takes a while to reach every broker. Kafka
has no such states: so a state is the statement, compared with every broker's access rules, open transactions, and ends
of logs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from isthmus.model.kafka.access import Rule
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.links.reservation import reservation
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem
from isthmus.model.registers import RESERVED, Registers

KEPT: Final = "kept"
"""The register with the principals that may continue to write, and whether the link is a super user."""


class NamespaceState(enum.StrEnum):
    """The principals that may write to a namespace, by the rules in force."""

    WRITABLE = "WRITABLE"
    """It is not reserved, and no broker has a rule that was made for a reservation."""
    RESERVING = "RESERVING"
    """It is reserved, and some leader shows that others may still write to it, or do."""
    RESERVED = "RESERVED"
    """It is reserved, and no leader shows otherwise."""
    RELEASING = "RELEASING"
    """It is no longer reserved, but some broker still keeps others out."""


class KeptBy(enum.StrEnum):
    """The means that keep other producers out of a reserved namespace."""

    ACCESS_RULES = "access rules"
    """Brokers refuse other writers: rules of Isthmus deny them."""
    GATEWAY = "gateway"
    """Gateways in front of the cluster refuse other writers. Brokers do not."""
    AGREED_ONLY = "agreed only"
    """Nothing: clients that may write there still can, and everyone has to know that they must not."""

    @property
    def bypass(self) -> Literal["possible"] | None:
        """Whether clients get past it that connect to brokers directly."""
        return "possible" if self is KeptBy.GATEWAY else None

    @property
    def in_words(self) -> str:
        """The reason in words."""
        return f"{self}, bypass: {self.bypass}" if self.bypass else str(self)


def is_enforced(registers: Registers) -> bool:
    """Return whether rules have to keep others out of a namespace, even if none is needed."""
    return any(register.name == KEPT and register.decoded for register in registers)


def kept_by(registers: Registers, *, has_gateway: bool = False) -> KeptBy | None:
    """Return what keeps others out of a namespace by these statements, `None` if it is not reserved. With
    `has_gateway`, a gateway that refuses them stands in front of the cluster, and is heard.
    """
    if not any(register.name == RESERVED and register.decoded for register in registers):
        return None
    if is_enforced(registers):
        return KeptBy.ACCESS_RULES
    return KeptBy.GATEWAY if has_gateway else KeptBy.AGREED_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wish for a namespace: with `is_enforced` rules keep out all but those to `keep`, and with `has_super_user`
    the link is beyond them; `made` are the rules that were made for it.
    """

    is_reserved: bool
    is_enforced: bool = False
    keep: tuple[str, ...] = ()
    has_super_user: bool = False
    made: tuple[Rule, ...] = ()

    @property
    def needs_rules(self) -> bool:
        """Whether the state depends on the brokers' rules."""
        return self.is_enforced if self.is_reserved else bool(self.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answers of leaders: the access rules each broker knows, by its id, or why it did not answer; the transactions
    that are open in the topics, and the partitions that grew between two looks. `problem` is why the latter are
    unknown.
    """

    rules: Mapping[int, frozenset[Rule] | Problem] = field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()
    grown: tuple[str, ...] = ()
    problem: Problem | None = None


def waits_for(namespace: Namespace, wish: Wish, probe: Probe) -> tuple[str, ...]:
    """Return the steps that are left until the wish is in force, in words."""
    return tuple(_holding_open(namespace, wish, probe) if wish.is_reserved else _keeping_closed(wish, probe))


def namespace_state(is_reserved: bool, left: tuple[str, ...]) -> NamespaceState:
    """Return the state of a namespace that waits for these steps (`waits_for`)."""
    if is_reserved:
        return NamespaceState.RESERVING if left else NamespaceState.RESERVED
    return NamespaceState.RELEASING if left else NamespaceState.WRITABLE


def _holding_open(namespace: Namespace, wish: Wish, probe: Probe) -> Iterator[str]:
    if wish.is_enforced:
        for broker, rules in sorted(probe.rules.items(), key=lambda each: each[0]):
            if isinstance(rules, Problem):
                yield f"broker {broker} does not report its access rules: {rules.message}"
                continue
            found = reservation(namespace, rules, wish.keep, has_super_user=wish.has_super_user)
            yield from (f"broker {broker} has the rule {rule.grant} on {rule.subject}" for rule in found.open)
    if probe.problem is not None:
        yield f"it is unknown whether a producer writes: {probe.problem.message}"
    for each in probe.transactions:
        # A transaction of a link is not a writer's: the link ends it, or the command that releases the namespace does.
        if each.state is not TransactionState.MIRRORED:
            yield f"a transaction of {each.owner} is open in {each.topic}-{each.partition}"
    yield from (f"a producer writes to {each}" for each in probe.grown)


def _keeping_closed(wish: Wish, probe: Probe) -> Iterator[str]:
    if not wish.made:
        return
    for broker, rules in sorted(probe.rules.items(), key=lambda each: each[0]):
        if isinstance(rules, Problem):
            yield f"broker {broker} does not report its access rules: {rules.message}"
        else:
            left = sorted(rules.intersection(wish.made), key=lambda rule: (rule.principal, rule.operation))
            yield from (f"broker {broker} still has the rule DENY {rule.grant} on {rule.subject}" for rule in left)
