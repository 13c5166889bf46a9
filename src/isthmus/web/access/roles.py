"""The roles that routes need."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request

from isthmus.errors import TokenRefused
from isthmus.web.access.guard import Caller
from isthmus.web.access.tokens import Role


def needs(role: Role) -> Any:
    """Return a dependency that admits only callers of this role, and returns the caller."""

    async def admit(request: Request) -> Caller:
        caller: Caller = request.state.caller
        check_role(caller, role)
        return caller

    return Depends(admit)


def check_role(caller: Caller, role: Role) -> None:
    """Check that a caller has at least this role.

    :raises TokenRefused: Its role is too small.
    """
    if not caller.role.may(role):
        raise TokenRefused(
            f"token {caller.name} is of role {caller.role}, and this needs {role}",
            status=HTTPStatus.FORBIDDEN,
            hint=f"isthmus token create --role {role} makes one.",
        )


Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Admin = Annotated[Caller, needs(Role.ADMIN)]
