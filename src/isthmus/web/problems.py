"""Problems of requests, as `application/problem+json` (RFC 9457), with our codes and hints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from isthmus.errors import (
    ClusterError,
    ConfigError,
    Fenced,
    GateNotMet,
    HostError,
    InvariantError,
    IsthmusError,
    Occupied,
    PlanRefused,
    RequestRefused,
    Unreachable,
    UnsupportedByBroker,
)
from isthmus.model.text.plain import IfKnown, plain

MEDIA_TYPE: Final = "application/problem+json"
_log = logging.getLogger(__name__)
_RETRY_S: Final = 5
_STATUSES: Final[tuple[tuple[type[IsthmusError], HTTPStatus], ...]] = (
    (ConfigError, HTTPStatus.BAD_REQUEST),
    (PlanRefused, HTTPStatus.CONFLICT),
    (GateNotMet, HTTPStatus.CONFLICT),
    (Fenced, HTTPStatus.CONFLICT),
    (Occupied, HTTPStatus.CONFLICT),
    (UnsupportedByBroker, HTTPStatus.CONFLICT),
    (Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (ClusterError, HTTPStatus.BAD_GATEWAY),
    (HostError, HTTPStatus.SERVICE_UNAVAILABLE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedField:
    """A part of a request that cannot be used, and why."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemDetails:
    """A problem (RFC 9457): `code` is one of ISTH-..., `hint` is the remedy. `error_code` is the status again, and
    `message` the detail, for clients of Kafka Connect.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None
    retryable: bool
    error_code: int
    message: str
    errors: IfKnown[list[RefusedField]] = None


def status_of(error: IsthmusError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, RequestRefused):
        return error.status
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_body(error: IsthmusError, status: int | None = None) -> ProblemDetails:
    """Return the members of a problem; `error_code` and `message` as clients of Kafka Connect's
    REST API expect them.
    """
    status = status_of(error) if status is None else status
    return ProblemDetails(
        type=f"urn:isthmus:error:{error.error_code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.message,
        code=error.error_code,
        hint=error.hint or None,
        retryable=error.retryable,
        error_code=status,
        message=error.message,
    )


def problem_headers(error: IsthmusError) -> dict[str, str]:
    """Return the headers beside the body: the kind of authentication, and when to ask again."""
    headers = {"Cache-Control": "no-store"}
    if status_of(error) == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="isthmus"'
    after = error.retry_after_s if isinstance(error, RequestRefused) else _RETRY_S if error.retryable else None
    if after is not None:
        headers["Retry-After"] = str(after)
    if isinstance(error, RequestRefused) and error.is_last:
        headers["Connection"] = "close"
    return headers


def problem_response(error: IsthmusError, extra: Mapping[str, Any] | None = None) -> Response:
    """Return the answer to a request that failed."""
    body = plain(problem_body(error)) | plain(extra or {})
    content = json.dumps(body).encode()
    return Response(content, status_of(error), problem_headers(error), MEDIA_TYPE)


ProblemAnswer = Callable[[Request, IsthmusError, Mapping[str, Any]], Response]
"""The answer to a request that failed, with headers beside the problem."""


def as_problem(_: Request, error: IsthmusError, extra: Mapping[str, Any]) -> Response:
    """Return the answer for programs."""
    return problem_response(error, extra)


def answer_problems(app: FastAPI, answer: ProblemAnswer = as_problem) -> None:
    """Answer every error of the app with a problem, or in another given way."""

    async def answer_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, IsthmusError)  # noqa: S101 - it is registered for these
        if isinstance(error, InvariantError):
            _log.error("a request failed", exc_info=error)
        return answer(request, error, {})

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
        # Without the sent values: they may hold anything.
        found = [
            RefusedField(field=".".join(str(part) for part in each["loc"]), message=str(each["msg"]))
            for each in error.errors()
        ]
        refused = RequestRefused(
            f"{found[0].field}: {found[0].message}",
            status=HTTPStatus.UNPROCESSABLE_ENTITY,
            hint="/v1/openapi.json has the expected form.",
        )
        return answer(request, refused, {"errors": found})

    async def answer_other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - as above
        hint = "/v1/openapi.json lists all paths."
        found = answer(request, RequestRefused(str(error.detail), status=error.status_code, hint=hint), {})
        found.headers.update(error.headers or {})
        return found

    app.add_exception_handler(IsthmusError, answer_known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, answer_other)


def unforeseen(error: Exception) -> InvariantError:
    """Return the answer for an unforeseen error: the log has it, the caller does not."""
    _log.error("a request failed", exc_info=error)
    return InvariantError("this is a bug in Isthmus", hint="The log of the server has more.")
