"""How a running link stands: by the course of its run, by what its session knows, and by what was copied. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus.errors import Unreachable
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.links.progress import ControllerProgress, GroupProgress, LinkProgress
from isthmus.model.loop import LoopProgress
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.leases import LeaseProgress
from isthmus.model.state import AGED_S, LinkEvidence, link_state
from isthmus.run.lanesview import LanesView, topics_of
from isthmus.run.state.course import RunCourse, Stage
from isthmus.spark.leases.progress import RunProgress
from isthmus.status.tasks import tasks_of
from isthmus.topics.plan import LinkPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session's knowledge of its link at a moment; that of a link without one is the default.

    `plan` is carried out, and None until the clusters were first looked at; `namespaces` are those whose topics
    were looked for. `paused` is what an operator has paused, `problem` what the last look found. `reports` are the
    last ones of all lanes, `idle` the lanes that do not run now: the session itself looks where their source ends.
    `looked_s` is how long ago topics were looked at on both sides, `waiting_s` how long lanes have waited for open
    `transactions` of the source. `loops` are the states of everything that the link synchronizes, `leases` those
    that run. `silence_s` is for how long the ledger at the target was neither read nor written.

    `is_held`: a client quota holds back what is written into the ledger. `is_away`: a cluster did not answer at the
    last look. `has_begun`: the clusters were looked at, and a lease has been heard unless there was no work for one.
    """

    plan: LinkPlan | None = None
    namespaces: tuple[NamespaceMap, ...] = ()
    paused: Pauses = NO_PAUSES
    problem: Problem | None = None
    reports: Mapping[LaneKey, LaneReport] = field(default_factory=dict)
    idle: frozenset[LaneKey] = frozenset()
    looked_s: Mapping[TargetTopic, float] = field(default_factory=dict)
    waiting_s: Mapping[LaneKey, float] = field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()
    groups: tuple[GroupProgress, ...] = ()
    loops: tuple[LoopProgress, ...] = ()
    leases: tuple[LeaseProgress, ...] = ()
    silence_s: float = 0.0
    is_held: bool = False
    is_away: bool = False
    has_begun: bool = False


def progress_of(
    link: Link,
    course: RunCourse,
    view: SessionView,
    copied: RunProgress,
    *,
    is_standing_by: bool,
    now: float,
    at_ms: int,
) -> LinkProgress:
    """Return how a link stands at the moment `now` (monotonic s, `at_ms` by the wall clock), or stood when it ended."""
    is_at_work, plan, paused = course.stage is Stage.AT_WORK, view.plan, view.paused
    silence = _find_silence(link, view) if is_at_work else None
    controller = course.find_controller(is_held=is_at_work and view.is_held)
    lanes = LanesView(
        controller=controller,
        reports=view.reports,
        counts=copied.counts,
        ages_s={key: age for key, age in copied.ages_s(now).items() if key not in view.idle},
        paused=paused,
        places=copied.places,
        looked_s=view.looked_s,
        waiting_s=view.waiting_s,
        link=link,
        at_ms=at_ms,
    )
    topics = () if plan is None else topics_of(plan, lanes)
    known = LinkEvidence(
        controller=controller,
        has_failed=course.error is not None,
        is_standing_by=is_standing_by,
        is_away=course.stage is Stage.AWAY or (is_at_work and view.is_away) or silence is not None,
        is_paused=paused.is_whole,
        has_begun=is_at_work and view.has_begun,
        is_impaired=any(topic.is_unfinished for topic in topics),
    )
    return LinkProgress(
        link=link.name,
        source=link.source.alias,
        target=link.target.alias,
        state=link_state(known),
        controller=ControllerProgress(state=controller),
        topics=topics,
        groups=view.groups,
        loops=tasks_of(link, view.loops, controller=controller, paused=paused),
        namespaces=view.namespaces if is_at_work and plan is not None else link.namespaces,
        pauses=paused.authored,
        records=copied.records,
        size_bytes=copied.size_bytes,
        latency=tuple(copied.latency),
        leases=view.leases,
        lease_totals=copied.leases,
        aborted=None if plan is None or plan.aborted is None else plan.aborted.policy,
        transactions=view.transactions,
        problem=course.problem or (view.problem if is_at_work else None) or silence,
    )


def _find_silence(link: Link, view: SessionView) -> Problem | None:
    """Return the problem that the target is silent, `None` while it is heard, or a quota holds back what it answers: a
    look at both clusters may wait longer for one that hangs, and meanwhile no lane is heard.
    """
    if view.silence_s <= AGED_S or view.is_held:
        return None
    alias = link.target.alias
    return problem_of(
        Unreachable(
            f"{alias} was not heard for more than {AGED_S:g} s: its ledger could be neither read nor written",
            cluster=alias,
            hint="Check that its brokers run and can be reached from here. The link goes on by itself.",
        )
    )
