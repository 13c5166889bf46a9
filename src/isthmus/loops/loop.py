"""The interface of all loops of a link: a loop looks, reports what differs, and changes that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from isthmus.errors import InvariantError
from isthmus.groups.plan import GroupsPlan
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.records import Deletion
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import TargetTopic
from isthmus.topics.plan import LinkPlan
from isthmus.topics.preflight import TopicPair

Remember = Callable[..., Awaitable[None]]
"""Writes documents of the link into its ledger; raises ClusterError and Fenced."""


async def _forbidden(*_: Document | Deletion) -> None:
    raise InvariantError("a loop that only looks writes nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """The link as a loop sees it at one moment.

    `plan` has the topics, `reports` the positions of the lanes (empty while nothing is copied), `groups` the state of
    the groups. `documents` are those of the link in the ledger, and `remember` writes there. `pairs` are its topics as
    they were just observed for the plan, `None` if that is too long ago.
    """

    link: Link
    source: Client
    target: Client
    plan: LinkPlan
    reports: Mapping[LaneKey, LaneReport] = field(default_factory=dict)
    groups: GroupsPlan | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    remember: Remember = _forbidden
    pairs: Mapping[TargetTopic, TopicPair] | None = None


class Loop(Protocol):
    """Keeps one kind of thing alike on both sides. An instance belongs to one session of a link, or to one plan."""

    name: str

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds; `None` where the link is not to do it."""
        ...

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the changes that the target needs, without making them.

        :raises ClusterError: A cluster cannot be asked.
        """
        ...

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Make the changes that have no problem; returns those that were not made, each with its problem.

        :raises ClusterError: A cluster does not answer.
        :raises Fenced: Another controller has taken the link over.
        """
        ...


@runtime_checkable
class Hurried(Protocol):
    """A loop that may be waited for: then it does not wait for its interval."""

    def is_awaited(self, view: LinkView) -> bool:
        """Whether it is waited for now."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A loop that holds connections open between its passes; its runner closes it."""

    async def aclose(self) -> None:
        """Close the connections. The next pass may open them again."""
        ...
