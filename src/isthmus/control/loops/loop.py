"""What every loop of a link has in common: it looks, it says what differs, it changes that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from isthmus.control.groups.plan import GroupsPlan
from isthmus.control.topics.plan import LinkPlan
from isthmus.control.topics.preflight import TopicPair
from isthmus.errors import InvariantError
from isthmus.ledger.documents import Document
from isthmus.ledger.records import Deletion
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import TargetTopic
from isthmus.wire.client import Client

Remember = Callable[..., Awaitable[None]]
"""Writes documents of the link into its ledger; raises ClusterError and Fenced."""


async def _forbidden(*_: Document | Deletion) -> None:
    raise InvariantError("whoever only looks writes nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """What a loop sees of its link at one moment.

    `plan` has the topics, `reports` how far the lanes are (none where nobody copies), `groups` how the groups stand.
    `documents` are the link's in the ledger, `remember` writes there. `pairs` are its topics as they were observed for
    the plan just now, `None` where that is too long ago.
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
    """One kind of thing that a link keeps alike. An instance belongs to one session of a link, or to one plan."""

    name: str

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds; `None` where the link is not to do it."""
        ...

    async def look(self, view: LinkView) -> Sequence[Change]:
        """What is to be changed at the target. Nothing is changed.

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
    """A loop that something may wait for: then it does not wait for its interval."""

    def is_awaited(self, view: LinkView) -> bool:
        """Whether something waits for it now."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A loop that holds something open between its passes; whoever runs it closes it."""

    async def aclose(self) -> None:
        """Close what is open. The next pass may open it again."""
        ...
