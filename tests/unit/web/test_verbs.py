"""Every command has a path of the REST API, or a reason for having none; every path is that of a command."""

from __future__ import annotations

import pytest

from testing.values.commands import LEAVES
from tests.unit.web.paths import PATHS, ROOT, SUMMARIES

PAGE = (ROOT / "docs" / "rest.md").read_text()
_LINK, _TREE, _CLUSTER = "/v1/links/{link}", "/v1/trees/{tree}", "/v1/clusters/{cluster}"
_NAMESPACE = f"{_CLUSTER}/namespaces/{{kind}}/{{namespace}}"

VERBS = {
    "Add",
    "Attach",
    "Cancel",
    "Carry",
    "Change",
    "Check",
    "Compare",
    "Copy",
    "Create",
    "Declare",
    "Delete",
    "Describe",
    "Detach",
    "Elect",
    "Examine",
    "Fail",
    "Forget",
    "Get",
    "List",
    "Make",
    "Move",
    "Pause",
    "Plan",
    "Promote",
    "Prove",
    "Read",
    "Reassign",
    "Reattach",
    "Recover",
    "Remove",
    "Replace",
    "Replay",
    "Reserve",
    "Reset",
    "Resume",
    "Reverse",
    "Show",
    "Stream",
    "Switch",
    "Translate",
    "Verify",
    "Wait",
}

OVER_REST = {
    "acls generate": (f"GET {_LINK}/acls",),
    "cluster describe": (f"GET {_CLUSTER}", f"GET {_CLUSTER}/last-known"),
    "cluster list": ("GET /v1/clusters",),
    "cluster elect-leaders": (f"POST {_CLUSTER}/leaders:elect",),
    "cluster groups": (f"GET {_CLUSTER}/groups",),
    "cluster reassign": (
        f"GET {_CLUSTER}/reassignments",
        f"GET {_CLUSTER}/reassignments/plan",
        f"POST {_CLUSTER}/reassignments",
        f"POST {_CLUSTER}/reassignments:cancel",
    ),
    "cluster registry": (f"GET {_CLUSTER}/registry",),
    "cluster topics": (f"GET {_CLUSTER}/topics",),
    "doctor": ("GET /v1/doctor",),
    "filters": (f"GET {_LINK}/filters", f"PUT {_LINK}/filters", f"DELETE {_LINK}/filters"),
    "forget": (f"POST {_LINK}:forget", f"POST {_CLUSTER}/links/{{link}}:forget"),
    "gateway forget": (f"POST {_CLUSTER}/gateways/{{gateway}}:forget",),
    "gateway status": ("GET /v1/gateways",),
    "groups copy": (f"GET {_CLUSTER}/groups/copy",),
    "groups describe": (f"GET {_LINK}/groups",),
    "groups drill": (f"POST {_LINK}/groups:drill",),
    "groups key": (f"GET {_LINK}/groups/key",),
    "groups list": (f"GET {_LINK}/groups",),
    "groups sync": (f"POST {_LINK}/groups:sync",),
    "groups translate": (f"GET {_LINK}/groups/translate",),
    "link attach": (f"POST {_LINK}:attach",),
    "link create": ("POST /v1/links",),
    "link delete": (f"DELETE {_LINK}",),
    "link describe": (f"GET {_LINK}",),
    "link detach": (f"POST {_LINK}:detach",),
    "link failover": (f"POST {_LINK}:failover",),
    "link list": ("GET /v1/links",),
    "link promote": (f"POST {_LINK}:promote",),
    "link reattach": (f"POST {_LINK}:reattach",),
    "link recover": (f"POST {_LINK}:recover",),
    "link reverse": (f"POST {_LINK}:reverse",),
    "link update": (f"PATCH {_LINK}",),
    "namespace create": (f"POST {_CLUSTER}/namespaces",),
    "namespace delete": (f"DELETE {_NAMESPACE}",),
    "namespace describe": (f"GET {_NAMESPACE}",),
    "namespace list": (f"GET {_CLUSTER}/namespaces",),
    "namespace update": (f"PATCH {_NAMESPACE}",),
    "pause": (f"PUT {_LINK}/pause", f"GET {_LINK}/pause"),
    "plan": ("GET /v1/plan", f"GET {_LINK}/plan"),
    "provenance": ("GET /v1/provenance/{topic}",),
    "quarantine list": (f"GET {_LINK}/quarantine", "GET /v1/quarantine"),
    "quarantine show": (f"GET {_LINK}/quarantine/{{topic}}",),
    "quarantine replay": (f"POST {_LINK}/quarantine:replay",),
    "resume": (f"PUT {_LINK}/resume",),
    "schemas diff": ("GET /v1/schemas/diff",),
    "schemas list": ("GET /v1/schemas", f"GET {_CLUSTER}/schemas"),
    "schemas primary": ("POST /v1/schemas:primary",),
    "schemas sync": ("POST /v1/schemas:sync",),
    "settings": (
        f"GET {_LINK}/settings",
        f"PUT {_LINK}/settings",
        f"DELETE {_LINK}/settings",
        f"GET {_LINK}/limits",
        f"PUT {_LINK}/limits",
    ),
    "status": (
        "GET /v1/status",
        f"GET {_LINK}/status",
        f"GET {_LINK}/topics",
        f"GET {_LINK}/topics/{{topic}}",
        f"GET {_LINK}/topics/{{topic}}/partitions",
        f"GET {_LINK}/topics/{{topic}}/partitions/{{partition}}",
        "GET /v1/events",
    ),
    "tree add": (f"PUT {_TREE}/clusters/{{cluster}}",),
    "tree create": ("POST /v1/trees",),
    "tree delete": (f"DELETE {_TREE}",),
    "tree describe": (f"GET {_TREE}",),
    "tree list": ("GET /v1/trees",),
    "tree move": (f"POST {_TREE}/clusters/{{cluster}}:move",),
    "tree plan": (f"GET {_TREE}/plan",),
    "tree remove": (f"DELETE {_TREE}/clusters/{{cluster}}",),
    "tree show": (f"GET {_TREE}", f"GET {_TREE}/clusters", "GET /v1/trees"),
    "tree switch": (f"PUT {_TREE}/targets/{{cluster}}/{{level}}",),
    "tree targets": (f"GET {_TREE}/targets",),
    "tree update": (f"PATCH {_TREE}",),
    "tree verify": (f"POST {_TREE}:verify",),
    "verify": (f"POST {_LINK}:verify",),
    "wait": (f"POST {_LINK}:wait",),
}
"""What a command does, over HTTP. Who adds a command adds its paths, or says below and in docs/rest.md why not."""

OF_THIS_HOST = (
    "config check", "config show", "context add", "context delete", "context list", "context show", "context use",
    "gateway serve", "help", "import", "init", "local down", "local status", "local up", "relay join",
    "relay serve", "run", "serve", "token create", "token list", "token revoke", "transform try",
)  # fmt: skip
"""They read and write files of this host, or are processes of it: docs/rest.md says so."""

OF_THE_SERVER = {
    "GET /livez", "GET /readyz", "GET /health", "GET /metrics", "GET /v1/operations", "GET /v1/operations/{operation}",
    "POST /v1/operations/{operation}:cancel",
}  # fmt: skip
"""They are about the server, and about what was begun there."""


@pytest.mark.parametrize("command", LEAVES)
def test_a_command_has_a_path_or_a_reason(command: str) -> None:
    """One of both; what has none is named in the page about the API."""
    assert (command in OVER_REST) != (command in OF_THIS_HOST)
    assert command in OVER_REST or f"`{command.split()[0]}`" in PAGE


def test_paths_and_commands_belong_together() -> None:
    """No path is named that there is not, and none is there that is not named."""
    named = {path for paths in OVER_REST.values() for path in paths}
    assert named | OF_THE_SERVER == PATHS
    assert set(LEAVES) >= {*OVER_REST, *OF_THIS_HOST}


def test_summaries_begin_with_a_verb() -> None:
    """Whoever reads the list of routes sees what each of them does, in a line."""
    verbs = {summary.partition(" ")[0].rstrip(":") for summary in SUMMARIES.values()}

    assert {name for name, summary in SUMMARIES.items() if len(summary) > 70} == set()
    assert verbs <= VERBS, f"is each of them a verb? {verbs - VERBS}"
