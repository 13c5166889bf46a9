"""Two operators of one namespace at once: the later one is told what the other one said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isthmus.control.clusters.namespace import NamespaceReport
from isthmus.errors import PlanRefused
from isthmus.ledger.documents import NamespaceDocument
from isthmus.model.registers import Registers, contested, register_text


def unchanged(known: NamespaceReport, held: NamespaceDocument | None, values: Mapping[str, Any]) -> Registers:
    """What a ledger holds of a namespace by now, where nobody said anything but these values of the same since it was
    `known`.

    :raises PlanRefused: Somebody did, or deleted it.
    """
    if held is None:
        hint = f"isthmus namespace list {known.cluster} shows those that there are."
        raise PlanRefused(f"{named(known)} was deleted meanwhile", hint=hint)
    wanted = {name: register_text(value) for name, value in values.items()}
    if (other := contested(known.registers, held.registers, wanted)) is not None:
        raise changed_meanwhile(known, other.as_news)
    return held.registers


def check_deletable(known: NamespaceReport, held: NamespaceDocument) -> None:
    """See that nobody has said anything of a namespace since it was `known`.

    :raises PlanRefused: Somebody has.
    """
    for register in held.registers:
        if register not in known.registers:
            raise changed_meanwhile(known, register.as_news)


def changed_meanwhile(known: NamespaceReport, news: str) -> PlanRefused:
    """That somebody else was quicker."""
    return PlanRefused(
        f"{named(known)} was changed meanwhile: {news}",
        hint=f"Look at it (isthmus namespace describe {known.cluster} {known.namespace}) and ask again.",
    )


def named(known: NamespaceReport) -> str:
    """A namespace and its cluster, for people."""
    return f"namespace {known.namespace} of {known.cluster}"
