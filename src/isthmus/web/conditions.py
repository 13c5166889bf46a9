"""The conditions of requests: ETags, and keys of requests that may be repeated."""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Header, Query

from isthmus.errors import RequestRefused
from isthmus.model.text.plain import plain

CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
IfMatch = Annotated[str | None, Header(description="The ETag of the resource to change, as it was read; or *.")]
DryRun = Annotated[bool, Query(description="Only report the changes, without making them.")]
ONLY_TOLD: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "The expected result, with dry_run."}}
"""The answers with dry_run of routes that create something otherwise."""
IdempotencyKey = Annotated[
    str | None, Header(max_length=255, description="A repeated request with the same key gets the first answer.")
]


def repeatable(idempotency_key: IdempotencyKey = None) -> None:
    """Add to the description how the guard treats each change."""


def refuse_if_match(if_match: IfMatch = None) -> None:
    """A dependency of changes to resources that have no ETag, as they cannot be read before.

    :raises RequestRefused: An ETag was sent.
    """
    if if_match is not None and if_match.strip() != "*":
        raise RequestRefused(
            "nothing that is changed here has an ETag",
            status=HTTPStatus.PRECONDITION_FAILED,
            hint="Send no If-Match: docs/rest.md lists the resources that have one.",
        )


def etag_of(value: object) -> str:
    """Return the ETag of an answer: any difference in it changes the ETag."""
    written = json.dumps(plain(value), sort_keys=True, default=str)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:32]}"'


def check_match(given: str | None, etag: str, *, is_needed: bool = True) -> None:
    """Check that the caller knows the current state of the resource that it changes.

    :raises RequestRefused: It has changed since, or the caller sent no ETag although one is required.
    """
    if given is None and is_needed:
        raise RequestRefused(
            "If-Match is missing",
            status=HTTPStatus.PRECONDITION_REQUIRED,
            hint="Read it first, and send its ETag as If-Match.",
        )
    if given is None or given.strip() == "*":
        return
    if etag not in [each.strip().removeprefix("W/") for each in given.split(",")]:
        raise RequestRefused(
            "it was changed since it was read",
            status=HTTPStatus.PRECONDITION_FAILED,
            hint="Read it again, and decide again.",
        )
