"""Access rules that keep others out of a reserved namespace: made, remembered, and taken back to the last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from isthmus.cluster.access import create_rules, delete_rules, describe_rules, rules_by_broker
from isthmus.cluster.outcomes import Outcomes
from isthmus.errors import BrokerRefused, ClusterError, ConfigError, PlanRefused
from isthmus.model.access import EVERYBODY, Rule
from isthmus.model.cluster import Cluster
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem, problem_of
from isthmus.model.registers import Registers
from isthmus.model.reservation import Reservation, is_enforceable, reservation, rules_of
from isthmus.model.rights import Resource
from isthmus.wire.client import Client

ENFORCED: Final = "enforced"
"""The register with the rules that were made."""
KEPT: Final = "kept"
"""The register with the principals that may go on writing, and whether the link is a super user."""
_SUPER_USER: Final = "super user"
_KNOWN_S: Final = 10.0
_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Who may go on writing to a reserved namespace: `principals`, and with `has_super_user` the link in any case."""

    principals: tuple[str, ...] = ()
    has_super_user: bool = False

    @classmethod
    def asked(
        cls,
        principals: Collection[str],
        *,
        has_super_user: bool,
        is_enforced: bool | None,
        is_reserved: bool | None = None,
    ) -> Keeping | None:
        """Who was asked to be kept where access rules are to keep others out; `None` where they are not to.

        :raises ConfigError: Somebody is to be kept by rules that nobody asked for, or what is to be closed is not to be
            reserved.
        """
        if is_enforced and is_reserved is False:
            raise ConfigError(
                "a namespace cannot be released and closed by access rules at once: what rules close is reserved",
                hint="Ask for one of both: no reservation to release it, or enforce to close it.",
            )
        if is_enforced:
            return cls(principals=tuple(principals), has_super_user=has_super_user)
        if principals or has_super_user:
            raise ConfigError("keep and super_user say whom access rules leave in", hint="Give enforce too.")
        return None

    @property
    def said(self) -> list[str]:
        """As a register holds it."""
        return [*sorted(self.principals), *([_SUPER_USER] if self.has_super_user else [])]


def keeping(cluster: Cluster, registers: Registers) -> Keeping:
    """What was said when the reservation was last enforced, or the login of the configuration."""
    said = _kept(registers)
    if not said:
        return own_login(cluster)
    return Keeping(principals=tuple(each for each in said if each != _SUPER_USER), has_super_user=_SUPER_USER in said)


def is_enforced(registers: Registers) -> bool:
    """Whether rules are to keep others out of a namespace, whether or not there are any to be made."""
    return bool(_kept(registers))


def _kept(registers: Registers) -> list[str]:
    return next((register.said for register in registers if register.name == KEPT), None) or []


def own_login(cluster: Cluster) -> Keeping:
    """The principal that the cluster knows us by, as far as the configuration tells."""
    username = cluster.security.username
    return Keeping(principals=() if username is None else (f"User:{username}",))


def with_own(keep: Keeping, cluster: Cluster) -> Keeping:
    """Who is kept: those that were named, or where nobody was the login by which this cluster is reached."""
    return keep if keep.principals else replace(own_login(cluster), has_super_user=keep.has_super_user)


def made_rules(registers: Registers) -> tuple[Rule, ...]:
    """The rules that were made for a namespace, as it remembers them."""
    return rules_of(next((register.said for register in registers if register.name == ENFORCED), ()))


def outdated_rules(registers: Registers, keep: Keeping) -> tuple[Rule, ...]:
    """Of the rules that were made, those against somebody who is to be kept now."""
    return tuple(
        rule
        for rule in made_rules(registers)
        if rule.principal in keep.principals or (rule.principal == EVERYBODY and not keep.has_super_user)
    )


async def examine_reservation(
    client: Client, namespace: Namespace, keep: Keeping, *, without: Collection[Rule] = ()
) -> Reservation | Problem:
    """What the cluster's rules do for a namespace, `without` those that are to go, or why that cannot be told."""
    if not is_enforceable(namespace):
        return Problem(
            f"no access rule is about just the {namespace.kind}s {namespace}",
            "Only topics and groups with a prefix or a name can be closed by rules.",
        )
    try:
        rules = await describe_rules(client, Resource.TOPIC if namespace.kind == "topic" else Resource.GROUP)
    except BrokerRefused as error:
        hint = "Who may connect may write: a controller that mirrors there notices it (FOREIGN_WRITE)."
        return Problem(error.message, hint, error.error_code)
    except ClusterError as error:
        return problem_of(error)
    left = [rule for rule in rules if rule not in without]
    return reservation(namespace, left, keep.principals, has_super_user=keep.has_super_user)


def require(found: Reservation | Problem, keep: Keeping, namespace: Namespace) -> Reservation:
    """What there is to be made, if it would close the namespace and leave the link in.

    :raises PlanRefused: It would not.
    """
    if isinstance(found, Problem):
        raise PlanRefused(f"{namespace} cannot be closed by access rules: {found.message}", hint=found.hint)
    if not keep.principals and not keep.has_super_user:
        raise PlanRefused(
            "nobody would be left who may write: the configuration does not tell which principal the link has",
            hint="Name it with --keep User:isthmus, or say --super-user if it is one.",
        )
    if found.everybody:
        shown = f"{found.everybody[0].grant} on {found.everybody[0].subject}"
        raise PlanRefused(
            f"a rule allows everybody to write: {shown}",
            hint="Replace it with rules for those who need it, or have the link be a super user (--super-user).",
        )
    return found


async def make(client: Client, rules: Collection[Rule]) -> None:
    """Create rules, and wait until the brokers know them.

    :raises ClusterError: One was refused.
    """
    _raise(await create_rules(client, rules))
    await _await_rules(client, rules, are_there=True)


async def take_back(client: Client, rules: Collection[Rule]) -> None:
    """Delete these rules and no others, and wait until the brokers know them no more.

    :raises ClusterError: One was refused.
    """
    _raise(await delete_rules(client, rules))
    await _await_rules(client, rules, are_there=False)


async def _await_rules(client: Client, rules: Collection[Rule], *, are_there: bool) -> None:
    """The controller knows of a change at once, the brokers learn of it a moment later, each in its own time."""
    deadline = time.monotonic() + _KNOWN_S
    for resource in {rule.resource for rule in rules}:
        wanted = {rule for rule in rules if rule.resource is resource}
        while time.monotonic() < deadline:
            told = (await rules_by_broker(client, resource)).values()
            known = [found for found in told if not isinstance(found, ClusterError)]
            if known and all(wanted <= found if are_there else not wanted & found for found in known):
                break
            await asyncio.sleep(_RETRY_S)


def _raise(outcomes: Outcomes[Rule, None]) -> None:
    for error in outcomes.errors.values():
        raise error
