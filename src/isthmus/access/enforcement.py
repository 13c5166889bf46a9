"""Access rules that keep other writers out of a reserved namespace: created, recorded, and all deleted in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, ConfigError, PlanRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.access import create_rules, delete_rules, describe_rules, rules_by_broker
from isthmus.kafka.admin.brokers import Operation, describe_cluster, may_let_everybody_in
from isthmus.kafka.client import Client
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.access import EVERYBODY, Rule
from isthmus.model.kafka.rights import Resource, on_cluster
from isthmus.model.links.reservation import Reservation, is_enforceable, is_ruled, reservation, rules_of
from isthmus.model.links.writability import KEPT
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem, problem_of
from isthmus.model.registers import Registers

ENFORCED: Final = "enforced"
"""The register with the rules that were created."""
UNREAD: Final = "unread"
"""The register with the rules that were created against readers (`reading`)."""
_SUPER_USER: Final = "super user"
_KNOWN_S: Final = 10.0
_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The principals that may write to a reserved namespace; with `has_super_user` the link as well, which is a super
    user that no rules apply to.
    """

    principals: tuple[str, ...] = ()
    has_super_user: bool = False

    @classmethod
    def from_options(
        cls,
        principals: Collection[str],
        *,
        has_super_user: bool,
        is_enforced: bool | None,
        is_reserved: bool | None = None,
    ) -> Keeping | None:
        """Build it from options; `None` where access rules are not asked for.

        :raises ConfigError: Principals are to be kept without rules, or the namespace is to be closed and released.
        """
        if is_enforced and is_reserved is False:
            raise ConfigError(
                "a namespace cannot be released and closed by access rules at once: what rules close is reserved",
                hint="Ask for one of both: no reservation to release it, or enforce to close it.",
            )
        if is_enforced:
            return cls(principals=tuple(principals), has_super_user=has_super_user)
        if principals or has_super_user:
            raise ConfigError("keep and super_user name the users that access rules leave in", hint="Give enforce too.")
        return None

    @property
    def register_value(self) -> list[str]:
        """The value of the register."""
        return [*sorted(self.principals), *([_SUPER_USER] if self.has_super_user else [])]


def keeping(cluster: Cluster, registers: Registers) -> Keeping:
    """Return the principals with which the reservation was last enforced, or the login of the configuration."""
    kept = _read_kept(registers)
    if not kept:
        return own_login(cluster)
    return Keeping(principals=tuple(each for each in kept if each != _SUPER_USER), has_super_user=_SUPER_USER in kept)


def _read_kept(registers: Registers) -> list[str]:
    return next((register.decoded for register in registers if register.name == KEPT), None) or []


def own_login(cluster: Cluster) -> Keeping:
    """Return the principal of our own login at the cluster, if the configuration has it."""
    return Keeping(principals=() if cluster.principal is None else (cluster.principal,))


def with_own(keep: Keeping, cluster: Cluster) -> Keeping:
    """Return the principals to keep: the given ones, or without any the login by which this cluster is reached."""
    return keep if keep.principals else replace(own_login(cluster), has_super_user=keep.has_super_user)


def made_rules(registers: Registers) -> tuple[Rule, ...]:
    """Return the rules that were created for a namespace, by its registers."""
    return rules_of(next((register.decoded for register in registers if register.name == ENFORCED), ()))


def made_against_readers(registers: Registers) -> tuple[Rule, ...]:
    """Return the rules that were created against readers of a namespace, by its registers."""
    return rules_of(next((register.decoded for register in registers if register.name == UNREAD), ()))


def outdated_rules(registers: Registers, keep: Keeping) -> tuple[Rule, ...]:
    """Return the created rules that deny a principal that is to be kept now."""
    return tuple(
        rule
        for rule in made_rules(registers)
        if rule.principal in keep.principals or (rule.principal == EVERYBODY and not keep.has_super_user)
    )


async def examine_reservation(
    client: Client,
    namespace: Namespace,
    keep: Keeping,
    *,
    without: Collection[Rule] = (),
    operations: Collection[str] | None = None,
) -> Reservation | Problem:
    """Examine what the cluster's rules do for a namespace, `without` those that are to go, or why that is unknown: for
    all operations that a reservation leaves to the link alone, or for these `operations`.
    """
    if not is_enforceable(namespace):
        return Problem(
            f"no access rule is about just the {namespace.kind}s {namespace}",
            "Only topics and groups with a prefix or a name can be closed by rules.",
        )
    try:
        rules = await describe_rules(client, Resource.TOPIC if namespace.kind == "topic" else Resource.GROUP)
        left = [rule for rule in rules if rule not in without]
        is_open = not is_ruled(namespace, left) and await may_let_everybody_in(client)
    except BrokerRefused as error:
        hint = "All clients that may connect may write: a controller that mirrors there notices it (FOREIGN_WRITE)."
        return Problem(error.message, hint, error.error_code)
    except ClusterError as error:
        return problem_of(error)
    if is_open:
        return Problem(
            f"no rule is about all of {namespace}, and the brokers of {client.cluster.alias} may admit all clients "
            "then: allow.everyone.if.no.acl.found is set, and its value is not shown",
            "Make rules first that allow the link to write there, and others to read: the first one ends that for all.",
        )
    return reservation(namespace, left, keep.principals, has_super_user=keep.has_super_user, operations=operations)


def require(found: Reservation | Problem, keep: Keeping, namespace: Namespace) -> Reservation:
    """Return the reservation if its missing rules would close the namespace and leave the link in.

    :raises PlanRefused: They would not.
    """
    if isinstance(found, Problem):
        raise PlanRefused(f"{namespace} cannot be closed by access rules: {found.message}", hint=found.hint)
    if not keep.principals and not keep.has_super_user:
        raise PlanRefused(
            "no principal would be left that may write: the configuration does not name the principal of the link",
            hint="Name it with --keep User:isthmus, or give --super-user if it is one.",
        )
    if found.everybody:
        shown = f"{found.everybody[0].grant} on {found.everybody[0].subject}"
        raise PlanRefused(
            f"a rule allows all users to write: {shown}",
            hint="Replace it with rules for those who need it, or have the link be a super user (--super-user).",
        )
    return found


async def check_allowed(client: Client, found: Reservation) -> None:
    """Require the right to create the missing rules, before anything is recorded.

    :raises NotAuthorized: The right to create rules is missing.
    :raises ClusterError: No broker answers.
    """
    if found.missing and Operation.ALTER not in (await describe_cluster(client)).operations:
        what = f"making the rule {found.missing[0].permission} {found.missing[0].grant} on {found.missing[0].subject}"
        refused = codes.CLUSTER_AUTHORIZATION_FAILED
        raise codes.error_for(refused, what, on_cluster("ALTER"), cluster=client.cluster.alias)


async def make(client: Client, rules: Collection[Rule]) -> None:
    """Create rules, and wait until the brokers have them.

    :raises ClusterError: A rule was rejected.
    """
    _raise_first(await create_rules(client, rules))
    await _await_rules(client, rules, are_there=True)


async def await_closed(client: Client, namespace: Namespace, keep: Keeping, *, without: Collection[Rule]) -> None:
    """Wait until every broker denies all others a namespace by the rules it has, `without` those that are to go; for
    ten seconds.

    :raises Unreachable: A broker does not answer, or still lets others in.
    """
    resource = Resource.TOPIC if namespace.kind == "topic" else Resource.GROUP
    deadline = Deadline(_KNOWN_S)
    while left := [
        f"broker {broker} {why}"
        for broker, found in sorted((await rules_by_broker(client, resource)).items())
        if (why := _lets_in(namespace, found, keep, without)) is not None
    ]:
        if deadline.has_passed:
            alias = client.cluster.alias
            raise Unreachable(
                f"{namespace} of {alias} is not closed by access rules yet: {left[0]}",
                cluster=alias,
                hint="Rules were made, and are remembered: give the same command again once all brokers answer.",
            )
        await asyncio.sleep(_RETRY_S)


def _lets_in(
    namespace: Namespace, found: frozenset[Rule] | ClusterError, keep: Keeping, without: Collection[Rule]
) -> str | None:
    """Describe how a broker lets others in by its rules, or that it does not answer; `None` if it lets none in."""
    if isinstance(found, ClusterError):
        return f"does not report its access rules: {found.message}"
    rules = found.difference(without)
    opened = reservation(namespace, rules, keep.principals, has_super_user=keep.has_super_user).open
    return f"has the rule {opened[0].grant} on {opened[0].subject}" if opened else None


async def take_back(client: Client, rules: Collection[Rule]) -> None:
    """Delete these rules and no others, and wait until no broker has them.

    :raises ClusterError: A deletion was rejected.
    """
    _raise_first(await delete_rules(client, rules))
    await _await_rules(client, rules, are_there=False)


async def _await_rules(client: Client, rules: Collection[Rule], *, are_there: bool) -> None:
    """Wait until brokers have rules, or no longer have them: they learn of a change later than the controller."""
    deadline = Deadline(_KNOWN_S)
    for resource in {rule.resource for rule in rules}:
        wanted = {rule for rule in rules if rule.resource is resource}
        while not deadline.has_passed:
            answers = (await rules_by_broker(client, resource)).values()
            known = [found for found in answers if not isinstance(found, ClusterError)]
            if known and all(wanted <= found if are_there else not wanted & found for found in known):
                break
            await asyncio.sleep(_RETRY_S)


def _raise_first(outcomes: Outcomes[Rule, None]) -> None:
    for error in outcomes.errors.values():
        raise error
