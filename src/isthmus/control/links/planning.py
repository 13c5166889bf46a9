"""The plan of one link as people ask for it: its topics as a run would find them, and what its loops would change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from isthmus.control.links.claims import Claims
from isthmus.control.links.forgetting import no_longer_mirrored
from isthmus.control.loops.all import foreseen_changes
from isthmus.control.loops.loop import LinkView
from isthmus.control.pool import ClusterPool
from isthmus.control.topics.foresight import foresee
from isthmus.control.topics.plan import LinkPlan
from isthmus.errors import ClusterError, PlanRefused
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.problem import problem_of


async def planned(
    link: Link, pool: ClusterPool, claims: Claims, own: Collection[Link], clusters: Collection[Cluster]
) -> LinkPlan:
    """What a run of the link would do; why it would do nothing is the plan's problem. Arguments as of `foresee`."""
    try:
        foreseen = await foresee(link, pool, claims, own, clusters)
        plan = replace(foreseen.plan, no_longer_mirrored=no_longer_mirrored(link, foreseen.documents))
        view = LinkView(
            link=link,
            source=pool.client(link.source),
            target=pool.client(link.target),
            plan=plan,
            documents=foreseen.documents,
            pairs=foreseen.observed.pairs,
        )
        return replace(plan, changes=await foreseen_changes(view))
    except (ClusterError, PlanRefused) as error:
        problem = problem_of(error)
        return LinkPlan(link=link.name, source=link.source.alias, target=link.target.alias, problem=problem)
