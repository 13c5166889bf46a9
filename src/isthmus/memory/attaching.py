"""The rules for declarations: which links, and which namespaces may follow which, checked before and after writing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.kafka.client import Client
from isthmus.memory.declarations import Declarations, author
from isthmus.memory.declared import Declared
from isthmus.model.gateways.synchrony import ONE_FOLLOWER, SYNC
from isthmus.model.links.declaration import ASYNC, LET_GO, SEMANTICS, Declaration, End, attachment
from isthmus.model.namespace import Namespace, NamespaceMap, contradictions
from isthmus.model.problem import cluster_error
from isthmus.model.registers import ATTACHED, DELETED, MODE, Registers, change_registers


def check_maps(declared: Declared, after: Declaration) -> None:
    """Require that no namespace follows two others, and no two follow each other: no client could write to either.

    :raises PlanRefused: A namespace would.
    """
    for contradiction in contradictions(after.maps):
        raise PlanRefused(f"link {after.name}: {contradiction}", hint="Attach namespaces that have no name in common.")
    for other in declared.links.living:
        if other.name == after.name:
            continue
        _check_not_back(after, other)
        if other.target.cluster_id != after.target.cluster_id:
            continue
        for own in after.maps:
            for theirs in other.maps:
                if own.target.overlaps(theirs.target):
                    raise PlanRefused(
                        f"namespace {own.target} of {after.target.alias} overlaps {theirs.target}, which follows "
                        f"{theirs.source} of {other.source.alias} by link {other.name}",
                        hint=f"A namespace follows one other: isthmus link detach {other.name} first.",
                    )


def _check_not_back(after: Declaration, other: Declaration) -> None:
    here, there = after.source, after.target
    if (other.source.cluster_id, other.target.cluster_id) != (there.cluster_id, here.cluster_id):
        return
    for own in after.maps:
        if (theirs := next(filter(own.leads_back, other.maps), None)) is not None:
            raise PlanRefused(
                f"namespace {theirs.target} of {here.alias} follows {theirs.source} of {there.alias} by link "
                f"{other.name}: each would follow the other, and no producer could write to either",
                hint=f"To exchange the sides: isthmus link reverse {other.name}; or isthmus link detach {other.name}.",
            )


def check_one_follower(declared: Declared, after: Declaration) -> None:
    """Require that acknowledgements of no topic of a synchronous link wait for another follower.

    :raises PlanRefused: Some do: they cannot wait for this one as well.
    """
    for other in declared.links.living:
        if other.mode == SYNC and (shared := after.shared_with(other)) is not None:
            raise PlanRefused(
                f"link {after.name} cannot be synchronous: {shared} of {after.source.alias} is in the synchronous link "
                f"{other.name} already, and {ONE_FOLLOWER}",
                hint=f"isthmus link update {other.name} --mode async, if they are to wait for {after.target.alias}.",
            )


def _check_not_crossed(after: Declaration, came: Sequence[NamespaceMap], now: Declaration | None) -> None:
    """Require that a link did not become synchronous at the moment in which namespaces `came`: each was checked without
    the other, and acknowledgements would wait for all that is still to be copied.

    :raises PlanRefused: It did.
    """
    if now is None or now.is_deleted or now.mode != SYNC:
        return
    if came and after.mode != SYNC:
        raise PlanRefused(f"link {after.name} became synchronous while {came[0]} was attached")
    if after.mode == SYNC and (more := [each for each in now.maps if each not in after.maps]):
        raise PlanRefused(f"link {after.name} cannot become synchronous: {more[0]} was attached meanwhile")


async def write_checked(
    declarations: Declarations, declared: Declared, known: Declaration, new: Registers, aliases: Sequence[str]
) -> Declared:
    """Write to these clusters the `new` statements of a link, and reserve what follows by it; return all declarations.

    If another link attached the same at the same time, or became synchronous over the same topics, or this one did
    while it attached namespaces, the change is undone here: the check is repeated after writing, so that at least the
    later of two concurrent changes finds the other.

    :raises PlanRefused: A namespace would follow two others, acknowledgements would wait for two followers, or the
        same was changed meanwhile.
    :raises ClusterError: A ledger cannot be read or written.
    """
    after = known.join(new)
    becomes_synchronous = after.mode == SYNC != known.mode
    came = [] if after.is_deleted else [each for each in after.maps if each not in known.maps]
    # A detached namespace stays reserved, though its cluster may not know yet that it was attached.
    await declarations.declare(declared, after, known.maps)
    for alias in aliases:
        await declarations.write(alias, known, new)
    try:
        if came or becomes_synchronous:
            now = await declarations.look()
            if came:
                check_maps(now, after)
            if becomes_synchronous:
                check_one_follower(now, after)
            _check_not_crossed(after, came, now.links.get(after.name))
    except PlanRefused as error:
        taken_back: dict[str, Any] = dict.fromkeys(map(attachment, came), False)
        if becomes_synchronous:
            taken_back[MODE] = known.mode
        if not known.is_whole or known.is_deleted:
            taken_back[DELETED] = True
        undone = change_registers(after.registers, taken_back, author(declared.ids[aliases[0]]))
        for alias in aliases:
            await declarations.write(alias, after, undone)
        raise PlanRefused(
            error.message,
            hint="Both were declared at once, and this was taken back: if the other one was as well, ask again.",
        ) from None
    await declarations.declare(declared, after, came)
    return await declarations.look()


async def check_prefix(client: Client, namespace: Namespace) -> None:
    """Require that a prefix is not meant for the one topic that has it as its name.

    :raises PlanRefused: There is that topic, and another one begins with its name.
    :raises ClusterError: The cluster did not answer.
    """
    if namespace.kind != "topic":
        return
    beside = namespace.beside((await client.metadata(None)).topics)
    if beside:
        prefix, more = namespace.prefix, ", ..." if len(beside) > 1 else ""
        raise PlanRefused(
            f"{prefix} is the whole name of a topic of {client.cluster.alias}, and others begin with it: "
            f"{beside[0]}{more}",
            hint=f"State which of the two you mean: {prefix}* for all that begins with it, or --exact "
            "(in a link --map-exact) for that topic alone.",
        )


def check_ids(ends: Iterable[End], cluster_ids: Mapping[str, str]) -> None:
    """Require that clusters have these ids, by alias.

    :raises PlanRefused: One has another.
    """
    for end in ends:
        if cluster_ids.get(end.alias, end.cluster_id) != end.cluster_id:
            raise PlanRefused(
                f"{end.alias} is cluster {end.cluster_id} here, and {cluster_ids[end.alias]} in the file of the link",
                hint="Correct the alias, or leave cluster_id out to declare the link on the clusters that there are.",
            )


def check_new(known: Declaration, values: Mapping[str, Any]) -> None:
    """Require that a link to be created is new, or was begun with the same values.

    :raises PlanRefused: It is declared, and otherwise.
    """
    if not known.registers or known.is_deleted:
        return
    # A link of that name may have existed before: what it attached and set is not part of this one.
    declared_before = {
        one.name: one.decoded for one in known.registers if not one.name.startswith((SEMANTICS, LET_GO, ATTACHED))
    }
    declared_before |= dict.fromkeys(map(attachment, known.maps), True)
    if _without_defaults(declared_before) != _without_defaults(values):
        raise PlanRefused(
            f"link {known.name} is declared already, and otherwise",
            hint=f"isthmus link describe {known.name} shows it; isthmus link update changes it.",
        )


def _without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, without settings that were reset to their defaults."""
    return {name: value for name, value in values.items() if value is not None}


def check_new_mode(mode: str) -> None:
    """Require that a new link may have this mode.

    :raises ConfigError: There is no such mode.
    :raises PlanRefused: A link may have it only once it has caught up.
    """
    check_mode(mode)
    if mode == SYNC:
        raise PlanRefused(
            "new links are asynchronous: producers would wait for a target that has nothing yet",
            hint="Create it with --mode async, and run it. Then isthmus wait LINK --for state=FOLLOWING, and "
            "isthmus link update LINK --mode sync.",
        )


def check_mode(mode: str) -> None:
    """Require that there is such a mode of links.

    :raises ConfigError: There is no such mode.
    """
    if mode not in (ASYNC, SYNC):
        raise ConfigError(f"{mode!r} is no mode of a link", hint="Links are async or sync.")


def away(declared: Declared, ends: Iterable[End]) -> ClusterError:
    """Return the error that none of the clusters of a link can be written to."""
    for end in ends:
        alias = declared.alias_of(end)
        if alias is None:
            return ClusterError(
                f"cluster {end.cluster_id} ({end.alias}) of the link is not in the configuration",
                cluster=end.alias,
                hint="Use a file that has the link's clusters.",
            )
        if alias in declared.away:
            problem = declared.away[alias]
            return cluster_error(problem, f"{alias} does not answer: {problem.message}", cluster=alias)
    return ClusterError("no cluster of the link answers", hint="Check that their brokers run.")
