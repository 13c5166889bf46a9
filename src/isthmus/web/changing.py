"""The routes that change something, each with a line in the log: who, what, and how it ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from isthmus.control.blocking import in_loop
from isthmus.control.links import pausing
from isthmus.control.links.filtering import Filters
from isthmus.errors import IsthmusError, RequestRefused
from isthmus.web.desk import FabricDesk
from isthmus.web.guard import Caller
from isthmus.web.roles import Operator, Viewer

Json = dict[str, Any]
_audit = logging.getLogger("isthmus.audit")
_PATTERNS_MAX: Final = 1000
_Patterns = Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=_PATTERNS_MAX)]
_Topic = Annotated[str | None, Query(description="Only this topic of the link.")]
_IfMatch = Annotated[str | None, Header(description="The ETag of what is to be changed, as it was read; or *.")]
_DryRun = Annotated[bool, Query(description="Only tell what would be.")]


class FiltersBody(BaseModel):
    """What a link is to select: each list replaces the one that holds, null leaves it."""

    model_config = ConfigDict(extra="forbid")

    topics_include: _Patterns | None = None
    topics_exclude: _Patterns | None = None
    groups_include: _Patterns | None = None
    groups_exclude: _Patterns | None = None

    @property
    def filters(self) -> Filters:
        """As the fabric takes them."""
        return Filters(
            topics_include=_patterns(self.topics_include),
            topics_exclude=_patterns(self.topics_exclude),
            groups_include=_patterns(self.groups_include),
            groups_exclude=_patterns(self.groups_exclude),
        )


def _patterns(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def changing_routes(desk: FabricDesk) -> APIRouter:
    """All of them, each with the role it needs."""
    router = APIRouter(prefix="/v1")
    _pausing_routes(router, desk)
    _filter_routes(router, desk)
    return router


def etag_of(value: object) -> str:
    """The ETag of an answer: another one as soon as anything in it is."""
    written = json.dumps(value, sort_keys=True, default=str)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:32]}"'


def check_match(given: str | None, etag: str) -> None:
    """See that a change is made to what the caller knows.

    :raises RequestRefused: Somebody has changed it since, or the caller did not say what it knows.
    """
    if given is None:
        raise RequestRefused(
            "If-Match is missing",
            status=HTTPStatus.PRECONDITION_REQUIRED,
            hint="Read it first, and send its ETag as If-Match.",
        )
    if given.strip() != "*" and etag not in [each.strip().removeprefix("W/") for each in given.split(",")]:
        raise RequestRefused(
            "it was changed since it was read",
            status=HTTPStatus.PRECONDITION_FAILED,
            hint="Read it again, and decide again.",
        )


@contextlib.contextmanager
def audited(caller: Caller, what: str, target: str) -> Iterator[Json]:
    """A line in the log, whatever happens; what changes is to be put into the value it gives."""
    difference: Json = {}
    result = "failed: ISTH-INVARIANT"
    try:
        yield difference
        result = "done"
    except IsthmusError as error:
        result = f"failed: {error.error_code}"
        raise
    finally:
        line = {"who": caller.name, "role": caller.role, "what": what, "target": target}
        _audit.info("%s", json.dumps({**line, "difference": difference, "result": result}, default=str))


def _pausing_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.put("/links/{link}/pause", tags=["links"], summary="Stop copying a link or a topic for a while")
    def pause_link(link: str, caller: Operator, topic: _Topic = None) -> Json:
        fabric, chosen = desk.link(link)
        with audited(caller, "pause", link) as difference:
            difference["topic"] = topic
            in_loop(pausing.pause(chosen, topic, fabric.configuration.ledger))
        return {"link": link, "topic": topic, "paused": True}

    @router.put("/links/{link}/resume", tags=["links"], summary="Go on copying what was paused")
    def resume_link(link: str, caller: Operator, topic: _Topic = None) -> Json:
        fabric, chosen = desk.link(link)
        with audited(caller, "resume", link) as difference:
            difference["topic"] = topic
            resumed = in_loop(pausing.resume(chosen, topic, fabric.configuration.ledger))
        return {
            "link": link,
            "topic": topic,
            "paused": False,
            "was_paused": resumed.was_paused,
            "link_is_paused": None in resumed.still_paused,
            "paused_topics": sorted(name for name in resumed.still_paused if name is not None),
        }


def _filter_routes(router: APIRouter, desk: FabricDesk) -> None:
    # Read, compared and written by one at a time: of two operators one gets 412.
    lock = threading.Lock()

    def changed(link: str, filters: Filters, given: str | None, caller: Caller, *, dry_run: bool) -> tuple[Json, str]:
        with lock, audited(caller, "filters", link) as difference:
            fabric, chosen = desk.link(link)
            before = fabric.filters(link).as_dict(chosen)
            check_match(given, etag_of(before))
            after = fabric.filter(link, filters, dry_run=dry_run).as_dict(chosen)
            difference.update({name: [before[name], after[name]] for name in after if after[name] != before[name]})
            difference["dry_run"] = dry_run
        return after, etag_of(before if dry_run else after)

    @router.get("/links/{link}/filters", tags=["filters"], summary="What a link selects; the ETag is for changing it")
    def read_filters(link: str, response: Response, _: Viewer) -> Json:
        fabric, chosen = desk.link(link)
        found = fabric.filters(link).as_dict(chosen)
        response.headers["ETag"] = etag_of(found)
        return found

    @router.put("/links/{link}/filters", tags=["filters"], summary="Have a link select something else, while it runs")
    def write_filters(
        link: str,
        body: FiltersBody,
        response: Response,
        caller: Operator,
        if_match: _IfMatch = None,
        dry_run: _DryRun = False,
    ) -> Json:
        filters = body.filters
        if filters.is_as_written:
            raise RequestRefused(
                "nothing is to be changed", status=422, hint="DELETE selects again what the file says."
            )
        found, response.headers["ETag"] = changed(link, filters, if_match, caller, dry_run=dry_run)
        return found

    @router.delete("/links/{link}/filters", tags=["filters"], summary="Have a link select again what the file says")
    def reset_filters(
        link: str,
        response: Response,
        caller: Operator,
        if_match: _IfMatch = None,
        dry_run: _DryRun = False,
    ) -> Json:
        found, response.headers["ETag"] = changed(link, Filters(), if_match, caller, dry_run=dry_run)
        return found
