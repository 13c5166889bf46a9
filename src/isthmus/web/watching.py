"""The state of the links, looked at for as long as it is requested: for events and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import IsthmusError
from isthmus.fabric.answers import StatusReader, now_ms
from isthmus.metrics.health import HealthAnswer
from isthmus.metrics.observation import Observer
from isthmus.metrics.server import MetricsAnswers
from isthmus.model.link import Link
from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.model.text.plain import Flat, NumberOrNull
from isthmus.web.events import Happenings
from isthmus.web.history import STEP_S, History

_log = logging.getLogger(__name__)
LOOK_S: Final = 2.0
_WANTED_S: Final = 90.0
"""A client that asks for metrics once a minute finds them ready."""
REMEMBERED_S: Final = 3600.0
"""For so long after the last use of the console links are watched, less often, so that charts have no holes."""
_LINKS_S: Final = 20.0
"""The interval of looks for newly declared links."""
_END_S: Final = 10.0
LinksProgress = tuple[LinkProgress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLook:
    """How a link stands, as an event has it."""

    pair_state: PairState
    lag_records: NumberOrNull
    problem: Problem | None
    topics: int
    topics_in_trouble: int
    states: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvent:
    """A link in an event: its state, its lag, and the number of its topics in each state. Of a link that
    is no more only that its state is null.
    """

    link: str
    state: LinkState | None = None
    look: Flat[LinkLook | None] = None


class Watch:
    """The links of a fabric, looked at every two seconds by a thread of its own while their state is requested; not at
    all if a run reports it (`is_fed`). A state that is older than `fresh_s` is never returned as the present one.
    """

    def __init__(
        self, links: Callable[[], Awaitable[tuple[Link, ...]]], *, is_fed: bool = False, fresh_s: float = _WANTED_S
    ) -> None:
        self.happenings = Happenings()
        self.newest: LinksProgress | None = None
        self.newest_at_ms = 0
        self._newest_at = 0.0
        self.history = History()
        self._links = links
        self._is_fed = is_fed
        self._fresh_s = fresh_s
        self._observer = Observer()
        self.answers = MetricsAnswers(self._observer, runs_none=not is_fed)
        self._wanted_until = self._remembered_until = 0.0
        self._fed_at = 0.0
        self._told: dict[str, LinkEvent] = {}
        self._is_told_anew = False
        self._lock = threading.Lock()
        self._has_looked = threading.Condition()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_open = True

    def want(self, remembered_s: float = 0.0) -> None:
        """Request the state: look from now on for a while, and less often for so much longer."""
        with self._lock:
            self._wanted_until = time.monotonic() + _WANTED_S
            self._remembered_until = max(self._remembered_until, time.monotonic() + remembered_s)
            if self._is_open and not self._is_fed and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
                self._thread.start()

    @property
    def fresh(self) -> LinksProgress | None:
        """The state of the links; `None` if it is too old, or cannot be seen now. If fed, the run reports it as long as
        it runs.
        """
        is_old = not self._is_fed and time.monotonic() - self._newest_at > self._fresh_s
        return None if is_old else self.newest

    def health(self, path: str) -> HealthAnswer | None:
        """Return the health of the run that feeds this, as its own `/livez`, `/readyz` and `/health` give it; `None` if
        there is no run.
        """
        return self.answers.health(path) if self._is_fed else None

    def first(self, timeout_s: float, remembered_s: float = 0.0) -> LinksProgress | None:
        """Return the state of the links, once it is known; `None` if it is not known in time."""
        self.want(remembered_s)
        with self._has_looked:
            self._has_looked.wait_for(lambda: self.fresh is not None, timeout_s)
            return self.fresh

    def read_state(self) -> LinksProgress:
        """Return the state of the links to begin with: if it is unknown, the next look reports all of them."""
        found = self.fresh
        self._is_told_anew = self._is_told_anew or found is None
        return found or ()

    def feed(self, links: LinksProgress) -> None:
        """Take the state of the links from a run."""
        if time.monotonic() - self._fed_at >= LOOK_S:
            self._fed_at = time.monotonic()
            self.take(links)

    def take(self, links: LinksProgress) -> None:
        """Take the present state of the links; send events about the changes."""
        self._observer.take(links, time.monotonic())
        self.history.take(links, time.time())
        with self._has_looked:
            self.newest, self.newest_at_ms, self._newest_at = links, now_ms(), time.monotonic()
            self._has_looked.notify_all()
        events = {link.link: link_event(link) for link in links}
        for name in self._told.keys() - events.keys():
            self.happenings.publish("link", name, LinkEvent(link=name))
        is_anew, self._is_told_anew = self._is_told_anew, False
        for name, now in events.items():
            if is_anew or now != self._told.get(name):
                self.happenings.publish("link", name, now)
        self._told = events

    def close(self) -> None:
        """Stop looking, and end all streams."""
        self.happenings.close()
        with self._lock:
            self._is_open = False
            thread, task = self._thread, self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        if thread is not None:
            thread.join(_END_S)

    def _run(self) -> None:
        while True:
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    asyncio.run(self._looking())
            except Exception as error:  # noqa: BLE001 - the next request starts another look
                _log.error("links could not be looked at", exc_info=error)
                self._wanted_until = self._remembered_until = 0.0
            with self._lock:
                if not self._is_wanted():
                    self._thread = self._task = None
                    return

    def _is_wanted(self) -> bool:
        return self._is_open and (self._is_urgent() or time.monotonic() < self._remembered_until)

    def _is_urgent(self) -> bool:
        return self.happenings.is_heard or time.monotonic() < self._wanted_until

    async def _looking(self) -> None:
        with self._lock:
            self._task = asyncio.current_task()
        while self._is_wanted():
            try:
                links = await self._links()
                async with StatusReader(links) as reader:
                    deadline = Deadline(_LINKS_S)
                    while self._is_wanted() and not deadline.has_passed:
                        self.take(await reader.read())
                        await self._pause()
            except IsthmusError as error:
                _log.warning("links cannot be looked at: %s", error)
                await asyncio.sleep(LOOK_S)

    async def _pause(self) -> None:
        """Wait for the next look; a new request shortens the wait."""
        deadline = Deadline(STEP_S)
        await asyncio.sleep(LOOK_S)
        while not self._is_urgent() and not deadline.has_passed:
            await asyncio.sleep(LOOK_S / 4)


def link_event(link: LinkProgress) -> LinkEvent:
    """Return the event of a link: its state, its lag, and how many of its topics are in which state."""
    look = LinkLook(
        pair_state=link.pair_state,
        lag_records=link.lag_records,
        problem=link.problem,
        topics=len(link.topics),
        topics_in_trouble=link.topics_in_trouble,
        states=_count_states(link),
    )
    return LinkEvent(link=link.link, state=link.state, look=look)


def _count_states(link: LinkProgress) -> dict[str, int]:
    found: dict[str, int] = {}
    for topic in link.topics:
        found[str(topic.state)] = found.get(str(topic.state), 0) + 1
    return dict(sorted(found.items()))
