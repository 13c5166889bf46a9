"""The plan of a link: what a run would find at its first look, and what it would change. Planning changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.loops.loop import LinkView
from isthmus.memory.claims import Claims
from isthmus.memory.forgetting import no_longer_mirrored
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.problem import problem_of
from isthmus.status.tasks import foreseen_changes
from isthmus.topics.changes import topic_changes
from isthmus.topics.foresight import foresee
from isthmus.topics.plan import LinkPlan


async def plan_link(
    link: Link, configuration: Configuration, session: ClientSession, claims: Claims, own: Collection[Link]
) -> LinkPlan:
    """Plan one of the links that are planned together (`own`); on failure the reason is its `problem`."""
    source, target, look_s = session.client(link.source), session.client(link.target), configuration.timings.look_s
    try:
        foreseen = await foresee(link, session, claims, own, configuration.clusters, look_s=look_s)
        plan = replace(foreseen.plan, no_longer_mirrored=no_longer_mirrored(link, foreseen.documents))
        pairs = foreseen.observed.pairs
        view = LinkView(link=link, source=source, target=target, plan=plan, documents=foreseen.documents, pairs=pairs)
        of_topics = topic_changes(plan.topics, pairs)
        return replace(plan, changes=(*of_topics, *await foreseen_changes(view)))
    except (ClusterError, PlanRefused) as error:
        return LinkPlan(link=link.name, source=link.source.alias, target=link.target.alias, problem=problem_of(error))
