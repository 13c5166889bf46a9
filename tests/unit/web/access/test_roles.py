"""Which role each route needs at least: one table over all that openapi.json describes."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from isthmus.model.configuration import Configuration
from isthmus.web.access.tokens import Role
from tests.unit.web.callers import callers
from tests.unit.web.paths import PATHS

_LINK, _TREE, _CLUSTER = "/v1/links/{link}", "/v1/trees/{tree}", "/v1/clusters/{cluster}"
_PLACE = f"{_TREE}/clusters/{{cluster}}"
_NAMESPACE = f"{_CLUSTER}/namespaces/{{kind}}/{{namespace}}"

OPERATOR = {
    f"PUT {_LINK}/pause",
    f"PUT {_LINK}/resume",
    f"PUT {_LINK}/filters",
    f"DELETE {_LINK}/filters",
    f"PUT {_LINK}/limits",
    f"PUT {_LINK}/settings",
    f"DELETE {_LINK}/settings",
    f"POST {_LINK}/groups:sync",
    f"POST {_LINK}/groups:drill",
    f"POST {_LINK}:verify",
    f"POST {_TREE}:verify",
    f"POST {_LINK}:wait",
    f"PUT {_TREE}/targets/{{cluster}}/{{level}}",
    "POST /v1/operations/{operation}:cancel",
}
ADMIN = {
    "POST /v1/links",
    f"PATCH {_LINK}",
    f"DELETE {_LINK}",
    f"GET {_LINK}/groups/key",
    f"POST {_LINK}:attach",
    f"POST {_LINK}:reattach",
    f"POST {_LINK}:detach",
    f"POST {_LINK}:promote",
    f"POST {_LINK}:failover",
    f"POST {_LINK}:reverse",
    f"POST {_LINK}:recover",
    f"GET {_LINK}/quarantine/{{topic}}",
    f"POST {_LINK}/quarantine:replay",
    f"POST {_LINK}:forget",
    f"POST {_CLUSTER}/links/{{link}}:forget",
    f"POST {_CLUSTER}/gateways/{{gateway}}:forget",
    "POST /v1/trees",
    f"PATCH {_TREE}",
    f"DELETE {_TREE}",
    f"PUT {_PLACE}",
    f"DELETE {_PLACE}",
    f"POST {_PLACE}:move",
    f"POST {_CLUSTER}/namespaces",
    f"PATCH {_NAMESPACE}",
    f"DELETE {_NAMESPACE}",
    f"POST {_CLUSTER}/leaders:elect",
    f"POST {_CLUSTER}/reassignments",
    f"POST {_CLUSTER}/reassignments:cancel",
    "POST /v1/schemas:sync",
    "POST /v1/schemas:primary",
}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> dict[Role, TestClient]:
    """Who asks, by role; no cluster answers, and none has to."""
    return callers(Configuration(clusters=(), links=()), tmp_path_factory.mktemp("web"))


def test_every_change_is_in_the_table() -> None:
    """Once; whatever only looks is a viewer's, but for the key of a group, and for what stands in records."""
    changes = {route for route in PATHS if not route.startswith("GET ")}
    assert changes | {f"GET {_LINK}/groups/key", f"GET {_LINK}/quarantine/{{topic}}"} == OPERATOR | ADMIN
    assert not OPERATOR & ADMIN


@pytest.mark.parametrize("route", sorted(OPERATOR | ADMIN))
def test_a_route_needs_its_role(asking: dict[Role, TestClient], route: str) -> None:
    """A viewer is told which, and an operator is let in where that is enough, and nowhere else."""
    method, path = route.split(" ")
    least = Role.OPERATOR if route in OPERATOR else Role.ADMIN
    viewer, operator = (asking[role].request(method, path) for role in (Role.VIEWER, Role.OPERATOR))

    assert (viewer.status_code, viewer.json()["detail"].rpartition(" ")[2]) == (403, str(least))
    assert (operator.status_code == 403) == (least is Role.ADMIN), operator.text
