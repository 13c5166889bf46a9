"""Delete topics at the target that the source has deleted, where the link says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from isthmus.errors import ClusterError, Fenced, IsthmusError
from isthmus.kafka.log.offsets import may_pass
from isthmus.links.claiming import hold_claim
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.links.pauses import Pauses
from isthmus.model.loop import TOPICS_TASK
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.recovery.attachment import LinkAttachment
from isthmus.recovery.deleting import DELETES, TopicDeleter, admit
from isthmus.run.opened import OpenLink
from isthmus.topics.plan import Action, LinkPlan

Forgets = Callable[[Collection[TargetTopic]], Awaitable[None]]
"""Makes the ledger and the session forget topics."""
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 30.0
_REST: Final = 10
_log = logging.getLogger(__name__)


class SourceDeletions:
    """Deletes at the target what the source has deleted for `deletion_s`, one topic after the other; see `deleting.py`
    for what has to be proven. `problems` are the reasons why topics are kept all the same.

    `current` is the link as it is by now, `plan` what it mirrors, `pauses` what operators have paused of it.
    """

    def __init__(
        self,
        opened: OpenLink,
        current: Callable[[], Link],
        plan: Callable[[], LinkPlan | None],
        pauses: Callable[[], Pauses],
        forgets: Forgets,
        ledger: LedgerSettings,
    ) -> None:
        self._open, self._current, self._plan, self._pauses = opened, current, plan, pauses
        self._forgets, self._ledger = forgets, ledger
        self._due_at: dict[TargetTopic, float] = {}
        self._failed: set[TargetTopic] = set()
        self.problems: dict[TargetTopic, Problem] = {}

    async def run(self) -> None:
        """Look every second, until cancelled. Failures are retried; nothing is raised."""
        while True:
            await asyncio.sleep(_LOOK_S)
            plan = self._plan()
            going = {each.topic for each in plan.topics if each.action is Action.DELETE} if plan is not None else set()
            await self._admit(self._due_at.keys() - going)
            self._due_at = {topic: at for topic, at in self._due_at.items() if topic in going}
            self.problems = {topic: problem for topic, problem in self.problems.items() if topic in going}
            self._failed &= going
            if self._pauses().stops(TOPICS_TASK):
                continue
            for topic in sorted(going):
                if time.monotonic() >= self._due_at.setdefault(topic, time.monotonic() + self._open.timings.deletion_s):
                    await self._delete(topic)

    async def _admit(self, back: Collection[TargetTopic]) -> None:
        """Let topics that went with many others and are back be deleted automatically next time, instead of kept."""
        plan = self._plan()
        there = {each.topic for each in plan.topics if each.is_copied} if plan is not None else set()
        with contextlib.suppress(IsthmusError):
            if back := there.intersection(back):
                await admit(self._open.name, back, self._open.target)

    async def _delete(self, topic: TargetTopic) -> None:
        link, opened, begun = self._current(), self._open, time.monotonic()
        deleter = TopicDeleter(
            link=link,
            attachment=LinkAttachment(
                current=self._current, name=link.name, source=opened.source, target=opened.target
            ),
            topic=topic,
            is_asked_for=False,
            on_step=lambda step: _log.info("link %s: %s", link.name, step),
        )
        try:
            copy = await deleter.examine()
            if copy is not None:
                async with hold_claim(opened.target, link.name, self._ledger, does=DELETES) as claim:
                    await deleter.delete(claim, copy)
                _log.warning("link %s: topic %s is deleted, as its source was", link.name, topic)
            await self._forgets([topic])
        except Exception as error:  # noqa: BLE001 - a bug with one topic must not end this for all others
            self._tell(link.name, topic, error)
        self._due_at[topic] = time.monotonic() + again_s(time.monotonic() - begun)

    def _tell(self, link: str, topic: TargetTopic, error: Exception) -> None:
        """Warn once why a topic is kept."""
        known, problem = self.problems.pop(topic, None), why_kept(error, is_again=topic in self._failed)
        self._failed.add(topic)
        if problem is not None:
            self.problems[topic] = problem
            if problem != known:
                is_bug = not isinstance(error, IsthmusError | TimeoutError)
                message = "link %s: topic %s is not deleted at the target: %s"
                _log.warning(message, link, topic, problem.message, exc_info=is_bug)


def again_s(took_s: float) -> float:
    """Return how long a kept topic is left alone after a look that took so long: a log with records of others is read
    up to there each time.
    """
    return max(_AGAIN_S, _REST * took_s)


def why_kept(error: Exception, *, is_again: bool) -> Problem | None:
    """Return why the deletion of a topic failed; `None` for a failure that passes, such as an outage, unless
    `is_again`: one broker of a cluster that answers may be away for long.
    """
    is_passing = isinstance(error, TimeoutError) or (isinstance(error, ClusterError) and may_pass(error))
    if isinstance(error, Fenced) or (is_passing and not is_again):
        return None
    if isinstance(error, IsthmusError):
        return problem_of(error)
    if isinstance(error, TimeoutError):
        return Problem("a cluster does not answer in time", "See that all brokers of both clusters are up.")
    return Problem(f"{type(error).__name__}: {error}", "This is a bug in Isthmus: please report it.")
