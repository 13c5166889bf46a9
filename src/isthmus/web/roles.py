"""Which role a route needs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request

from isthmus.errors import TokenRefused
from isthmus.web.guard import Caller
from isthmus.web.tokens import Role


def needs(role: Role) -> Any:
    """A dependency that lets only callers of this role pass, and gives them."""

    async def allowed(request: Request) -> Caller:
        caller: Caller = request.state.caller
        check_role(caller, role)
        return caller

    return Depends(allowed)


def check_role(caller: Caller, role: Role) -> None:
    """See that a caller may do what this role is needed for.

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
