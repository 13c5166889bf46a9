"""Two operators change one namespace at once: the later one gets an error with the change of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isthmus.errors import PlanRefused
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.model.registers import Registers, find_contested, register_text
from isthmus.namespaces.namespace import NamespaceReport


def require_unchanged(known: NamespaceReport, held: NamespaceDocument | None, values: Mapping[str, Any]) -> Registers:
    """Return the registers of a namespace in the ledger, if no others than these values were written to the same
    registers since it was `known`.

    :raises PlanRefused: They were changed, or the namespace was deleted.
    """
    if held is None:
        hint = f"isthmus namespace list {known.cluster} shows those that there are."
        raise PlanRefused(f"{format_namespace(known)} was deleted meanwhile", hint=hint)
    wanted = {name: register_text(value) for name, value in values.items()}
    if (other := find_contested(known.registers, held.registers, wanted)) is not None:
        raise changed_meanwhile(known, other.as_news)
    return held.registers


def check_deletable(known: NamespaceReport, held: NamespaceDocument) -> None:
    """Require that a namespace was not changed since it was `known`.

    :raises PlanRefused: It was changed.
    """
    for register in held.registers:
        if register not in known.registers:
            raise changed_meanwhile(known, register.as_news)


def changed_meanwhile(known: NamespaceReport, news: str) -> PlanRefused:
    """Build the error that another operator was quicker."""
    return PlanRefused(
        f"{format_namespace(known)} was changed meanwhile: {news}",
        hint=f"Look at it (isthmus namespace describe {known.cluster} {known.namespace}) and ask again.",
    )


def format_namespace(known: NamespaceReport) -> str:
    """Name a namespace and its cluster, for people."""
    return f"namespace {known.namespace} of {known.cluster}"
