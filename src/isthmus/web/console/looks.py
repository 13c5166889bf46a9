"""The links for pages: as they were last seen, without asking any cluster."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from isthmus.errors import RequestRefused
from isthmus.model.links.progress import LinkProgress
from isthmus.web.console.atlas import Atlas, draw
from isthmus.web.console.rows import TopicRow, topic_rows
from isthmus.web.desk import FabricDesk
from isthmus.web.history import History
from isthmus.web.watching import REMEMBERED_S, LinksProgress, Watch

_FIRST_S: Final = 3.0
_PROBLEMS_MAX: Final = 20


class NamedTopic(NamedTuple):
    """A topic of a link, by the names in an address."""

    link: str
    topic: str


class Looks:
    """The newest look of a watch, and derived values, which are computed once, however many pages ask."""

    def __init__(self, desk: FabricDesk, watch: Watch) -> None:
        self.desk = desk
        self._watch = watch
        self._of: LinksProgress | None = None
        self._rows: dict[str, tuple[TopicRow, ...]] = {}

    @property
    def history(self) -> History:
        """The history of the links."""
        return self._watch.history

    @property
    def at_ms(self) -> int:
        """The time of the last look at links, 0 for never."""
        return self._watch.newest_at_ms

    def links(self) -> LinksProgress:
        """All links as they were seen at `at_ms`, none if they were never looked at; the first
        request waits a moment.
        """
        return self._watch.first(_FIRST_S, REMEMBERED_S) or self._watch.newest or ()

    def link(self, name: str) -> LinkProgress | None:
        """Return one link, `None` if it was not looked at yet.

        :raises RequestRefused: There is none of that name.
        """
        for each in self.links():
            if each.link == name:
                return each
        if any(each.name == name for each in self.desk.configuration.links):
            return None
        raise RequestRefused(
            f"there is no link {name}", status=HTTPStatus.NOT_FOUND, hint="The map shows all links; a new one soon."
        )

    def rows(self, link: LinkProgress) -> tuple[TopicRow, ...]:
        """Return the topics of a link as they are shown."""
        newest = self._watch.newest
        if newest is not self._of:
            self._of, self._rows = newest, {}
        found = self._rows.get(link.link)
        if found is None or len(found) != len(link.topics):
            found = self._rows[link.link] = topic_rows(link, self.history.rates(link.link))
        return found

    def atlas(self, links: LinksProgress) -> Atlas:
        """Return the map of all clusters."""
        clusters = [each.alias for each in self.desk.configuration.clusters]
        ends = [end for link in links for end in (link.source, link.target)]
        return draw([*clusters, *ends], [(link.link, link.source, link.target) for link in links])
