"""What may be declared: which links, and which namespaces may follow which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isthmus.control.links.declared import Declared
from isthmus.errors import PlanRefused
from isthmus.model.declaration import LET_GO, SEMANTICS, Declaration, End
from isthmus.model.namespace import Namespace, contradictions
from isthmus.wire.client import Client


def check_maps(declared: Declared, after: Declaration) -> None:
    """See that nothing follows two namespaces.

    :raises PlanRefused: Something would.
    """
    for told in contradictions(after.maps):
        raise PlanRefused(f"link {after.name}: {told}", hint="Attach namespaces that have no name in common.")
    for other in declared.living:
        if other.name == after.name or other.target.cluster_id != after.target.cluster_id:
            continue
        for own in after.maps:
            for theirs in other.maps:
                if own.target.overlaps(theirs.target):
                    raise PlanRefused(
                        f"namespace {own.target} of {after.target.alias} overlaps {theirs.target}, which follows "
                        f"{theirs.source} of {other.source.alias} by link {other.name}",
                        hint=f"A namespace follows one other: isthmus link detach {other.name} first.",
                    )


async def check_prefix(client: Client, namespace: Namespace) -> None:
    """See that a prefix is not taken for the one topic that has it as its name.

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
            hint=f"Say which is meant: {prefix}* for all that begins with it, or --exact (in a link --map-exact) for "
            "that topic alone.",
        )


def check_ids(ends: Iterable[End], cluster_ids: Mapping[str, str]) -> None:
    """See that clusters are those with these ids, by alias.

    :raises PlanRefused: One is another.
    """
    for end in ends:
        if cluster_ids.get(end.alias, end.cluster_id) != end.cluster_id:
            raise PlanRefused(
                f"{end.alias} is cluster {end.cluster_id} here, and {cluster_ids[end.alias]} in the file of the link",
                hint="Correct the alias, or leave cluster_id out to declare the link on the clusters that there are.",
            )


def check_new(known: Declaration, values: Mapping[str, Any]) -> None:
    """See that a link that is to be created is a new one, or the one that was begun with the same words.

    :raises PlanRefused: It is declared, and otherwise.
    """
    if not known.registers or known.is_deleted:
        return
    said = {one.name: one.said for one in known.registers if not one.name.startswith((SEMANTICS, LET_GO))}
    if said != values:
        raise PlanRefused(
            f"link {known.name} is declared already, and otherwise",
            hint=f"isthmus link describe {known.name} shows it; isthmus link update changes it.",
        )
