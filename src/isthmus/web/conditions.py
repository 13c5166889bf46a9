"""What a request says of what it knows: ETags, and keys of requests that may be sent again."""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Header, Query

from isthmus.errors import RequestRefused

CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
IfMatch = Annotated[str | None, Header(description="The ETag of what is to be changed, as it was read; or *.")]
DryRun = Annotated[bool, Query(description="Only tell what would be.")]
ONLY_TOLD: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "What would be, with dry_run."}}
"""How routes answer with dry_run that make something else."""
IdempotencyKey = Annotated[
    str | None, Header(max_length=255, description="Who sends the same again with it gets the first answer.")
]


def repeatable(idempotency_key: IdempotencyKey = None) -> None:
    """Has the description say what the guard does for each change."""


def unmatched(if_match: IfMatch = None) -> None:
    """A dependency of changes of which nothing can be read before: nobody has an ETag of it.

    :raises RequestRefused: An ETag was sent.
    """
    if if_match is not None and if_match.strip() != "*":
        raise RequestRefused(
            "nothing that is changed here has an ETag",
            status=HTTPStatus.PRECONDITION_FAILED,
            hint="Send no If-Match: docs/rest.md names what it is of.",
        )


def etag_of(value: object) -> str:
    """The ETag of an answer: another one as soon as anything in it is."""
    written = json.dumps(value, sort_keys=True, default=str)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:32]}"'


def check_match(given: str | None, etag: str, *, is_needed: bool = True) -> None:
    """See that a change is made to what the caller knows.

    :raises RequestRefused: Somebody has changed it since, or the caller did not say what it knows and has to.
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
