"""The answers for orchestrators: whether the process lives, whether it is ready, and the health of its links. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar, Final, Literal

from isthmus import __version__
from isthmus.metrics.observation import Observation
from isthmus.model.links.progress import LinkProgress
from isthmus.model.loop import LoopState
from isthmus.model.problem import Problem
from isthmus.model.state import RUNNING, LinkState
from isthmus.model.text.plain import IfKnown, NumberOrNull

STUCK_S: Final = 60.0
"""A controller without a report for so long is stuck: it reports every five seconds, whatever its clusters do."""
_READY: Final = (*RUNNING, LinkState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealth:
    """How a link does that a run runs."""

    link: str
    source: str
    target: str
    state: LinkState
    lag_records: NumberOrNull
    topics: int
    topics_in_trouble: int
    tasks: dict[str, LoopState]
    problem: Problem | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHealth:
    """How a process does: `reasons` are there if it is not healthy, links if a run reports them."""

    SCHEMA: ClassVar = "Health"

    status: Literal["ok", "unavailable", "healthy", "impaired", "starting", "unhealthy"]
    message: IfKnown[str] = None
    reasons: IfKnown[list[str]] = None
    version: IfKnown[str] = None
    links: IfKnown[tuple[LinkHealth, ...]] = None


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """The answer to one question."""

    status: HTTPStatus
    body: ProcessHealth


def livez(seen: Observation | None, now: float, begun_at: float) -> HealthAnswer:
    """Return whether the process works at all. Trouble of a link does not count: a restart does not help."""
    silent_s = now - (begun_at if seen is None else seen.at_s)
    if silent_s > STUCK_S:
        return _unavailable([f"the controller has reported nothing for {silent_s:.0f} s"])
    return HealthAnswer(HTTPStatus.OK, ProcessHealth(status="ok"))


def readyz(seen: Observation | None) -> HealthAnswer:
    """Return whether every link is run by this process, and its lanes are heard or there is nothing for them to do."""
    if seen is None:
        return _unavailable(["the run is just starting"])
    reasons = [_reason(link) for link in seen.links if link.state not in _READY]
    return _unavailable(reasons) if reasons else HealthAnswer(HTTPStatus.OK, ProcessHealth(status="ok"))


def health(seen: Observation | None, now: float, begun_at: float) -> HealthAnswer:
    """Return both in one, with the state of each link; `status` and `message` in the words of Kafka Connect's workers
    (KIP-1017).

    Topics in trouble make it "impaired", a word of our own, and no failure: a restart does not help.
    """
    alive, ready = livez(seen, now, begun_at), readyz(seen)
    word: Literal["healthy", "impaired", "starting", "unhealthy"]
    if alive.status is not HTTPStatus.OK:
        status, word, message = HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", (alive.body.reasons or [""])[0]
    elif ready.status is not HTTPStatus.OK:
        links = () if seen is None else seen.links
        is_starting = all(link.state in (LinkState.STARTING, LinkState.STANDBY, *_READY) for link in links)
        status, word = HTTPStatus.SERVICE_UNAVAILABLE, "starting" if is_starting else "unhealthy"
        message = "; ".join(ready.body.reasons or ())
    elif trouble := _trouble(seen):
        status, word, message = HTTPStatus.OK, "impaired", trouble
    else:
        status, word, message = HTTPStatus.OK, "healthy", "All links run."
    links = () if seen is None else seen.links
    body = ProcessHealth(status=word, message=message, version=__version__, links=tuple(_link(link) for link in links))
    return HealthAnswer(status, body)


def _unavailable(reasons: list[str]) -> HealthAnswer:
    return HealthAnswer(HTTPStatus.SERVICE_UNAVAILABLE, ProcessHealth(status="unavailable", reasons=reasons))


def _reason(link: LinkProgress) -> str:
    why = "" if link.problem is None else f": {link.problem.message}"
    return f"link {link.link} is {link.state}{why}"


def _trouble(seen: Observation | None) -> str:
    """Describe the topics with an obstacle to copying, whatever their link's state is; "" for none."""
    links = () if seen is None else seen.links
    return "; ".join(f"link {link.link}: {link.trouble_in_words}" for link in links if link.trouble)


def _link(link: LinkProgress) -> LinkHealth:
    return LinkHealth(
        link=link.link,
        source=link.source,
        target=link.target,
        state=link.state,
        lag_records=link.lag_records,
        topics=len(link.topics),
        topics_in_trouble=link.topics_in_trouble,
        tasks={loop.loop: loop.state for loop in link.loops},
        problem=link.problem,
    )
