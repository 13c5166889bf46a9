"""Close namespaces by access rules when they are attached: only the link may write to what follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isthmus.access.enforcement import (
    Keeping,
    check_allowed,
    examine_reservation,
    keeping,
    made_rules,
    own_login,
    require,
    with_own,
)
from isthmus.errors import PlanRefused
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.memory.declared import Declared
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.access import EVERYBODY
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.writability import is_enforced
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.registers import Registers
from isthmus.namespaces.namespaces import AsyncNamespaces


def choose_keepers(link: Declaration, target: Cluster, keep: Keeping) -> Keeping:
    """Return who keeps access where a link closes what it attaches: its own login at its target, if nobody is named.

    :raises ConfigError: No principal is named, and the target does not have the link's login.
    """
    return keep if keep.principals else with_own(keep, target.logged_in(link.target_login))


async def check_closable(target: Client, maps: Iterable[NamespaceMap], keep: Keeping) -> None:
    """Require that rules would close all that is to follow, and let the link in.

    :raises PlanRefused: They would not.
    :raises NotAuthorized: No rules may be made.
    """
    for each in maps:
        await check_allowed(target, require(await examine_reservation(target, each.target, keep), keep, each.target))


async def close(
    target: Cluster, session: ClientSession, maps: Iterable[NamespaceMap], keep: Keeping, ledger: LedgerSettings
) -> None:
    """Close all that follows; see `AsyncNamespaces.enforce`.

    :raises PlanRefused: One of them was opened meanwhile.
    :raises ClusterError: A rule was refused, or the ledger cannot be read or written; a repeated call continues.
    """
    namespaces = AsyncNamespaces(target, session, ledger)
    for each in maps:
        await namespaces.enforce(each.target, keep=keep.principals, super_user=keep.has_super_user)


def check_left_in(declared: Declared, link: Declaration, target: Cluster, login: str) -> None:
    """Require that the rules that close what follows let the link in when it has another login at its target.

    :raises ConfigError: The cluster has no such login.
    :raises PlanRefused: They would keep it out, or that is unknown.
    """
    if login == link.target_login:
        return
    own = own_login(target.logged_in(login)).principals
    documents = declared.namespaces.get(target.alias, {})
    for namespace in (each.target for each in link.maps):
        registers = documents[namespace].registers if namespace in documents else ()
        if not is_enforced(registers):
            _check_not_left(target, namespace, registers, own)
            continue
        keep = keeping(target, registers)
        if own and set(own) <= set(keep.principals):
            continue
        update = f"isthmus namespace update {target.alias} {_as_argued(namespace)}"
        if own:
            kept = " ".join(f"--keep {each}" for each in sorted({*keep.principals, *own}))
            hint = f"{update} --enforce {kept}{' --super-user' if keep.has_super_user else ''} first."
        else:
            hint = f"{update} --no-enforce first, and --enforce --keep with its principal afterwards."
        raise PlanRefused(
            f"link {link.name} is to be {own[0] if own else 'a principal that the file does not name'} at "
            f"{target.alias}, whom access rules would keep out of {namespace}: they leave "
            f"{', '.join(keep.register_value)} in",
            hint=hint,
        )


def _check_not_left(target: Cluster, namespace: Namespace, registers: Registers, own: Collection[str]) -> None:
    """Require that rules left by a killed command keep none of these principals out of a namespace.

    :raises PlanRefused: They may.
    """
    for rule in made_rules(registers):
        if not own or rule.principal in {*own, EVERYBODY}:
            raise PlanRefused(
                f"a command that was interrupted has left access rules at {target.alias} that keep {rule.principal} "
                f"out of {namespace}",
                hint=f"isthmus namespace update {target.alias} {_as_argued(namespace)} --no-enforce takes them back.",
            )


def _as_argued(namespace: Namespace) -> str:
    """Return a namespace as commands take it."""
    kind = "" if namespace.kind == "topic" else f" --kind {namespace.kind}"
    return f"{namespace} --exact{kind}" if namespace.is_exact else f"'{namespace}'{kind}"
