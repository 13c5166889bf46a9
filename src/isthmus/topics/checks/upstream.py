"""Topics that come from clusters whose ledgers are not read: their writers there are unknown."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from isthmus.memory.claims import Claims
from isthmus.model.link import Link
from isthmus.model.problem import Problem
from isthmus.model.text.wording import first_few
from isthmus.topics.plan import TopicPlan

_log = logging.getLogger(__name__)


def unseen_sources(link: Link, topics: Iterable[TopicPlan], claims: Claims) -> Iterator[Problem]:
    """Yield one sentence for each link of others that brings topics from such a cluster."""
    brought: dict[tuple[str, str], list[str]] = {}
    for topic in topics:
        for claim in claims.unseen(link.name, topic.topic):
            brought.setdefault((claim.link, claim.source_id), []).append(topic.source_topic)
    for (other, cluster_id), names in sorted(brought.items()):
        yield Problem(
            f"link {other} brings {first_few(names)} from a cluster whose ledger is not read here "
            f"(cluster id {cluster_id}): a circle through it would not be noticed",
            f"Add that cluster to clusters, or make sure that nothing of {link.target.alias} is copied into it.",
        )


def tell_unseen(link: Link, problems: Iterable[Problem]) -> None:
    """Warn while a link runs about what it cannot know."""
    for problem in problems:
        _log.warning("%s: %s", link.name, problem.in_full)
