"""How a link treats aborted records at its target, and why: rules alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from isthmus.model.kafka.rights import grant, on_cluster
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.problem import Problem
from isthmus.model.text.plain import Hidden

VERIFICATION: Final = "transaction.partition.verification.enable"
_COPIED_THEN: Final = "they are copied, exactly once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The abilities that decide whether aborted records can be copied exactly once.

    `writes_markers`: we may write control records ourselves (ALTER on the cluster). `verifies`: brokers ask a
    coordinator before they take a transaction's first record (KIP-890), `None` where they do not let us see. `tells`:
    brokers tell what they know of producers (3.0).
    """

    writes_markers: bool
    verifies: bool | None
    tells: bool

    @property
    def obstacle(self) -> str:
        """The reason why aborted records cannot be copied without a coordinator; "" if they can."""
        if not self.writes_markers:
            return "ALTER on the cluster is missing"
        if not self.tells:
            return "brokers before 3.0 do not report open transactions"
        if self.verifies is None:
            return "its brokers do not let us see whether they verify transactions"
        return "its brokers verify transactions" if self.verifies else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """The policy in force: `policy` is `COPY` or `OMIT`, `reason` says why, and `advice` how the records could be
    copied instead.

    `risk` is why a partition may stop when a broker fails, and what to do about it; `None` where none does.
    """

    policy: Annotated[AbortedPolicy, "aborted"]
    reason: Annotated[str, "aborted_reason"]
    advice: Hidden[str] = ""
    risk: Hidden[Problem | None] = None

    def __str__(self) -> str:
        what = "copied" if self.policy is AbortedPolicy.COPY else "left out"
        return f"aborted records are {what}: {self.reason}"


def treatment(wanted: AbortedPolicy, abilities: Abilities, target: str) -> Treatment:
    """Return how aborted records are treated at the cluster of this alias, with this wish and these abilities."""
    obstacle = abilities.obstacle
    if not abilities.writes_markers:
        # Leaving records out takes a control record for each record, and coordinators would write every one of them.
        policy = AbortedPolicy.OMIT if wanted is AbortedPolicy.OMIT else AbortedPolicy.COPY
        reason = obstacle if wanted is AbortedPolicy.AUTO else f"as configured, although {obstacle}"
        return Treatment(policy=policy, reason=reason, risk=_lacking_right(policy, target))
    if wanted is AbortedPolicy.OMIT:
        return Treatment(policy=wanted, reason="as configured")
    if not obstacle:
        reason = "as configured" if wanted is AbortedPolicy.COPY else f"{target} takes them exactly once"
        return Treatment(policy=AbortedPolicy.COPY, reason=reason)
    advice = way(abilities, target, _COPIED_THEN)
    if wanted is AbortedPolicy.AUTO:
        reason = f"{target} does not take them exactly once, as {obstacle}"
        return Treatment(policy=AbortedPolicy.OMIT, reason=reason, advice=advice)
    risk = Problem(
        f"coordinators of {target} write the ends of aborted transactions, as {obstacle}, and may write one twice when "
        "a broker fails: that partition stops then",
        f"Set transactions.aborted of the link to auto: such records are left out then. {advice}",
    )
    return Treatment(policy=AbortedPolicy.COPY, reason=f"as configured, although {obstacle}", risk=risk)


def _lacking_right(policy: AbortedPolicy, target: str) -> Problem:
    each = "" if policy is AbortedPolicy.COPY else ", one for each aborted record"
    return Problem(
        f"coordinators of {target} write all control records{each}, and may write one twice when a broker fails: that "
        "partition stops then, whether aborted records are copied or left out",
        grant(on_cluster("ALTER"), target, then="Isthmus writes them itself then, exactly once"),
    )


def way(abilities: Abilities, target: str, then: str) -> str:
    """Return how to overcome the obstacle, if there is one, and the result (`then`)."""
    if not abilities.writes_markers:
        return grant(on_cluster("ALTER"), target, then=then)
    if not abilities.tells:
        return f"From Kafka 3.0 on {then}."
    if abilities.verifies is None:
        return grant(on_cluster("DESCRIBE_CONFIGS"), target, then=f"{then} if they do not")
    return (
        f"With {VERIFICATION}=false on the target's brokers (dynamic, all brokers) {then}: kafka-configs "
        f"--bootstrap-server ... --alter --entity-type brokers --entity-default --add-config {VERIFICATION}=false."
    )
