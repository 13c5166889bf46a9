"""How transactions of a link become visible at its target, and why: rules alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.problem import Problem
from isthmus.model.text.plain import Hidden
from isthmus.topics.aborted import Abilities, way

_WHOLE_THEN: Final = "transactions are whole then"
COST: Final = (
    "each batch of a transaction takes a round trip of its own, and transactions that a link leaves open when it "
    "stops hold read_committed consumers back until it resumes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityInForce:
    """The visibility in force: `visibility` is `WHOLE` or `RECORD`, `reason` says why, and `advice` how transactions
    could be whole instead, or the cost of whole ones. `problem` is why they are not whole although that is configured.
    """

    visibility: Visibility
    reason: Annotated[str, "visibility_reason"]
    advice: Hidden[str] = ""
    problem: Hidden[Problem | None] = None

    def __str__(self) -> str:
        if self.visibility is Visibility.WHOLE:
            return f"transactions are whole: {self.reason}"
        return f"committed transactions become visible record by record: {self.reason}"


def visibility(
    wanted: Visibility, aborted: AbortedPolicy, abilities: Abilities, target: str, *, is_decided: bool = False
) -> VisibilityInForce:
    """Return how transactions become visible at the cluster of this alias, with this wish, these abilities, and this
    treatment of aborted records. A link whose lanes have to know how a transaction ended, as they map offsets or are
    those of a tree, copies what `is_decided`.
    """
    why = ""
    if is_decided:
        why = "records that get other offsets, or are those of a tree, are copied once it is known how they end"
    elif aborted is AbortedPolicy.OMIT:
        # It is unknown whether the records of an open transaction are to be left out.
        why = "aborted records are left out, as configured"
    if why:
        return VisibilityInForce(visibility=Visibility.RECORD, reason=why)
    if wanted is Visibility.RECORD:
        hint = "With transactions.visibility: auto on the link they are whole, but in compacted topics."
        advice = "" if abilities.obstacle else hint
        return VisibilityInForce(visibility=wanted, reason="transactions.visibility is record", advice=advice)
    obstacle = abilities.obstacle
    if not obstacle:
        reason = "as configured" if wanted is Visibility.WHOLE else f"{target} takes them so"
        way_back = "With transactions.visibility: record on the link they become visible record by record."
        return VisibilityInForce(visibility=Visibility.WHOLE, reason=reason, advice=f"It costs: {COST}. {way_back}")
    advice = way(abilities, target, _WHOLE_THEN)
    problem = None
    if wanted is Visibility.WHOLE:
        problem = Problem(f"transactions.visibility is whole, but they are not: {obstacle}", advice)
    return VisibilityInForce(
        visibility=Visibility.RECORD,
        reason=f"{target} does not take them whole, as {obstacle}",
        advice=advice,
        problem=problem,
    )
