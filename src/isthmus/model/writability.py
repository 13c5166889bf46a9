"""Whether others may write to a namespace: what was said of it beside what all leaders show. Pure.

KIP-986 asks whether namespaces should have states too, since a reservation takes a while to reach everybody. Kafka
knows none: so a state is what was said, held against every broker's access rules, open transactions, and ends of logs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from isthmus.model.access import Rule
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem
from isthmus.model.registers import RESERVED, Registers
from isthmus.model.reservation import reservation
from isthmus.model.transactions import OpenTransaction, TransactionState

KEPT: Final = "kept"
"""The register with the principals that may go on writing, and whether the link is a super user."""


class NamespaceState(enum.StrEnum):
    """Who may write to a namespace, as far as it is in force."""

    WRITABLE = "WRITABLE"
    """It is not reserved, and no broker has a rule that was made for a reservation."""
    RESERVING = "RESERVING"
    """It is reserved, and some leader shows that others may still write to it, or do."""
    RESERVED = "RESERVED"
    """It is reserved, and no leader shows otherwise."""
    RELEASING = "RELEASING"
    """It is reserved no more, and some broker still keeps others out."""


class KeptBy(enum.StrEnum):
    """What keeps others out of a namespace that is reserved."""

    ACCESS_RULES = "access rules"
    """Brokers refuse whoever writes there: rules of Isthmus deny it."""
    GATEWAY = "gateway"
    """Gateways in front of the cluster refuse whoever writes there through them. Brokers do not."""
    AGREED_ONLY = "agreed only"
    """Nothing: who may write there goes on being able to, and all have to know that they shall not."""

    @property
    def bypass(self) -> Literal["possible"] | None:
        """Whether clients get past it that connect to brokers directly."""
        return "possible" if self is KeptBy.GATEWAY else None

    @property
    def in_words(self) -> str:
        """As people read it."""
        return f"{self}, bypass: {self.bypass}" if self.bypass else str(self)


def is_enforced(registers: Registers) -> bool:
    """Whether rules are to keep others out of a namespace, whether or not there are any to be made."""
    return any(register.name == KEPT and register.said for register in registers)


def kept_by(registers: Registers, *, has_gateway: bool = False) -> KeptBy | None:
    """What keeps others out of a namespace of which this was said, `None` where it is not reserved. With `has_gateway`
    one stands in front of the cluster that refuses them, and is heard.
    """
    if not any(register.name == RESERVED and register.said for register in registers):
        return None
    if is_enforced(registers):
        return KeptBy.ACCESS_RULES
    return KeptBy.GATEWAY if has_gateway else KeptBy.AGREED_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was said of a namespace: with `is_enforced` rules keep out all but those to `keep`, and with
    `has_super_user` the link is beyond them; `made` are the rules that were made for it.
    """

    is_reserved: bool
    is_enforced: bool = False
    keep: tuple[str, ...] = ()
    has_super_user: bool = False
    made: tuple[Rule, ...] = ()

    @property
    def needs_rules(self) -> bool:
        """Whether it takes the brokers' rules to tell the state."""
        return self.is_enforced if self.is_reserved else bool(self.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What leaders showed: the access rules each broker knows, by its id, or why it did not tell; the transactions that
    are open in the topics, and the partitions that grew between two looks. `problem` is why these could not be told.
    """

    rules: Mapping[int, frozenset[Rule] | Problem] = field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()
    grown: tuple[str, ...] = ()
    problem: Problem | None = None


def waits_for(namespace: Namespace, wish: Wish, probe: Probe) -> tuple[str, ...]:
    """What is left until all that was said is in force, in words."""
    return tuple(_holding_open(namespace, wish, probe) if wish.is_reserved else _keeping_closed(wish, probe))


def namespace_state(is_reserved: bool, left: tuple[str, ...]) -> NamespaceState:
    """The state of a namespace of which this is left to come into force (`waits_for`)."""
    if is_reserved:
        return NamespaceState.RESERVING if left else NamespaceState.RESERVED
    return NamespaceState.RELEASING if left else NamespaceState.WRITABLE


def _holding_open(namespace: Namespace, wish: Wish, probe: Probe) -> Iterator[str]:
    if wish.is_enforced:
        for broker, rules in sorted(probe.rules.items(), key=lambda each: each[0]):
            if isinstance(rules, Problem):
                yield f"broker {broker} does not tell its access rules: {rules.message}"
                continue
            found = reservation(namespace, rules, wish.keep, has_super_user=wish.has_super_user)
            yield from (f"broker {broker} has the rule {rule.grant} on {rule.subject}" for rule in found.open)
    if probe.problem is not None:
        yield f"whether somebody writes cannot be told: {probe.problem.message}"
    for each in probe.transactions:
        # What a link has open there is no writer's: it ends it, or whoever releases the namespace does.
        if each.state is not TransactionState.MIRRORED:
            yield f"a transaction of {each.owner} is open in {each.topic}-{each.partition}"
    yield from (f"somebody writes to {each}" for each in probe.grown)


def _keeping_closed(wish: Wish, probe: Probe) -> Iterator[str]:
    if not wish.made:
        return
    for broker, rules in sorted(probe.rules.items(), key=lambda each: each[0]):
        if isinstance(rules, Problem):
            yield f"broker {broker} does not tell its access rules: {rules.message}"
        else:
            left = sorted(rules.intersection(wish.made), key=lambda rule: (rule.principal, rule.operation))
            yield from (f"broker {broker} still has the rule DENY {rule.grant} on {rule.subject}" for rule in left)
