"""Verbs that take long: begun, looked at, stopped, and their results."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from isthmus.local import LocalCluster
from isthmus.web.access.tokens import Role
from testing.records import topics
from testing.rest.asking import Served
from tests.integration.web.bodies import body_of
from tests.integration.web.bodies import name as name

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def test_namespaces_are_detached_and_failed_over(served: Served, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each as an operation with its steps and its result; with If-Match only while the link is as it was read."""
    caplog.set_level(logging.INFO, "isthmus.audit")
    one = f"/v1/links/{name}"
    created = served.ask("POST", "/v1/links", json=body_of(name))
    assert served.ask("POST", f"{one}:failover", Role.OPERATOR).status_code == 403
    stale = served.ask("POST", f"{one}:failover", headers={"If-Match": '"other"'})
    assert stale.status_code == 412
    foreseen = served.ended(served.begin(f"{one}:failover?dry_run=true"))
    assert (foreseen["state"], foreseen["result"]["done"]) == ("SUCCEEDED", False)
    detached = served.ended(served.begin(f"{one}:detach", json={"timeout_s": 30}))
    assert (detached["state"], detached["result"]["done"], detached["problem"]) == ("SUCCEEDED", True, None)
    assert detached["progress"][0]["step"] == "detaching"
    assert [each["source"] for each in served.ask("POST", f"{one}:reattach").json()["attached"]] == [f"{name}.a-*"]
    key = {"Idempotency-Key": name, "If-Match": served.ask("GET", one).headers["ETag"]}
    assert key["If-Match"] != created.headers["ETag"]
    begun = served.begin(f"{one}:failover", headers=key)
    assert served.begin(f"{one}:failover", headers=key) == begun
    failed_over = served.ended(begun)
    assert (failed_over["verb"], failed_over["result"]["verb"], failed_over["by"]) == (
        "failover",
        "failover",
        "a admin",
    )
    assert not served.read(f"/v1/clusters/west/namespaces/topic/{name}.x-*")["reserved"]
    assert begun.rpartition("/")[2] in [each["operation"] for each in served.read("/v1/operations")]

    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "isthmus.audit"]
    results = [line["result"] for line in lines if line["difference"].get("operation") == begun.rpartition("/")[2]]
    assert results == ["begun", "done"]
    served.ask("DELETE", f"/v1/clusters/west/namespaces/topic/{name}.x-*", headers={"If-Match": "*"})


def test_an_operation_is_stopped(served: Served, east: LocalCluster, name: str) -> None:
    """A promotion that waits is, and another one of the link is refused meanwhile; nothing was changed."""
    topics.create(east, f"{name}.a-1")
    topics.fill(east, f"{name}.a-1", 10)
    served.ask("POST", "/v1/links", json=body_of(name))
    one = f"/v1/links/{name}"
    begun = served.begin(f"{one}:promote", json={"timeout_s": 600})
    refused = served.ask("POST", f"{one}:reverse", json={"as_link": f"{name}-back"})
    assert (refused.status_code, begun in refused.json()["hint"]) == (409, True)
    assert served.ask("POST", f"{begun}:cancel", Role.OPERATOR).status_code == 403
    assert served.ask("POST", f"{begun}:cancel").status_code == 202
    assert served.ended(begun)["state"] == "CANCELLED"
    assert len(served.read(one)["declaration"]["attached"]) == 1
    late = served.ended(served.begin(f"{one}:promote", json={"timeout_s": 0.1, "quiet_s": 0}))
    assert (late["state"], late["problem"]["code"]) == ("FAILED", "ISTH-GATE")
    assert served.ask("POST", "/v1/operations/nothing:cancel").status_code == 404


def test_a_link_is_recovered_replayed_and_drilled(served: Served) -> None:
    """As far as there is anything to recover: what is wrong is told as a problem of the operation."""
    recovered = served.ended(served.begin("/v1/links/{link}:recover?dry_run=true", json={"way": "mapped"}))
    assert (recovered["state"], recovered["result"]["topics"]) == ("SUCCEEDED", [])
    replayed = served.ended(served.begin("/v1/links/{link}/quarantine:replay", json={"topic": served.topic}))
    assert (replayed["state"], replayed["problem"]) == ("SUCCEEDED", None), "nothing was set aside"
    drilled = served.ended(
        served.begin("/v1/links/{link}/groups:drill", Role.OPERATOR, json={"group": f"{served.link}-group"})
    )
    assert (drilled["state"], drilled["result"]["group"]) == ("SUCCEEDED", f"{served.link}-group")
    assert drilled["result"]["skipped"] == 0
    assert any(each["step"].startswith("comparing up to 1,000 records") for each in drilled["progress"])
    assert served.ask("POST", "/v1/links/nothing:recover").status_code == 404
    assert served.ask("POST", "/v1/links/{link}:recover", json={"way": "beside"}).status_code == 422


def test_a_link_is_verified(served: Served, west: LocalCluster) -> None:
    """By a process of its own, which is ended when it is stopped; that both sides differ is a result."""
    stopped = served.begin("/v1/links/{link}:verify", Role.OPERATOR)
    again = served.ask("POST", "/v1/links/{link}:verify", Role.OPERATOR)
    assert again.status_code == 409
    assert served.ask("POST", f"{stopped}:cancel", Role.OPERATOR).status_code == 202
    assert served.ended(stopped)["state"] == "CANCELLED"
    assert served.ask("POST", "/v1/links/{link}:verify", json={"since": "yesterday"}).status_code == 400
    unknown = served.ended(served.begin("/v1/links/{link}:verify", Role.OPERATOR, json={"topics": ["nothing"]}))
    assert (unknown["state"], unknown["problem"]["code"]) == ("FAILED", "ISTH-CONFIG")
    topics.create(west, served.topic, partitions=2)
    try:
        verified = served.ended(served.begin("/v1/links/{link}:verify", Role.OPERATOR))
    finally:
        topics.delete(west, served.topic)
    assert (verified["state"], verified["problem"], verified["result"]["equal"]) == ("SUCCEEDED", None, False)
    (verdict,) = verified["result"]["verdicts"]
    assert verdict["link"] == served.link
