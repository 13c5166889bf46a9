"""The Spark configuration that leases run with."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.errors import ConfigError, PlanRefused
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import adopt_session, conf_for


def test_spark_never_retries_a_lease() -> None:
    """The scheduler alone knows when another task may write; and cancelled workers end at once."""
    conf = conf_for(SparkSettings(master="spark://h:7077"))
    assert conf["spark.task.maxFailures"] == "1"
    assert conf["spark.python.worker.reuse"] == "true"
    assert conf["spark.master"] == "spark://h:7077"


def test_an_embedded_spark_keeps_to_itself() -> None:
    """It listens on loopback alone and shows no UI unless asked to."""
    conf = conf_for(SparkSettings())
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"
    assert "spark.driver.host" not in conf_for(SparkSettings(master="spark://h:7077"))


def test_the_operator_has_the_last_word() -> None:
    """Whatever is written in the configuration stands."""
    conf = conf_for(SparkSettings(conf={"spark.ui.enabled": "true", "spark.executor.memory": "2g"}))
    assert (conf["spark.ui.enabled"], conf["spark.executor.memory"]) == ("true", "2g")


@pytest.mark.parametrize(
    ("settings", "links", "master"),
    [
        (SparkSettings(slots=8), 1, "local[8]"),
        (SparkSettings(slots=1), 3, "local[2]"),
        (SparkSettings(), 1, "local[4]"),
        (SparkSettings(), 16, "local[5]"),
        (SparkSettings(master="local[1]"), 3, "local[1]"),
    ],
)
def test_an_embedded_spark_has_a_slot_for_every_core_and_one_more_for_many_links(
    settings: SparkSettings, links: int, master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none waits for another's lease to end, unless the operator named the number."""
    monkeypatch.setattr("isthmus.spark.session.os.cpu_count", lambda: 4)
    assert conf_for(settings, links=[f"link-{n}" for n in range(links)])["spark.master"] == master


def test_the_application_is_named_after_its_links() -> None:
    """So that one finds it among others; an operator's own name stands."""
    names = ["east-west", "north-south", "up-down", "in-out", "left-right"]
    assert conf_for(SparkSettings())["spark.app.name"] == "isthmus"
    assert conf_for(SparkSettings(), links=names[:2])["spark.app.name"] == "isthmus east-west, north-south"
    assert conf_for(SparkSettings(), links=names)["spark.app.name"] == "isthmus east-west, north-south, up-down, 2 more"
    own = SparkSettings(conf={"spark.app.name": "mirror"})
    assert conf_for(own, links=names)["spark.app.name"] == "mirror"


@pytest.mark.parametrize("value", ["true", "TRUE"])
@pytest.mark.parametrize(
    ("name", "why"), [("spark.speculation", "twice"), ("spark.dynamicAllocation.enabled", "what partitions need")]
)
def test_properties_that_do_not_go_with_leases_are_refused(name: str, why: str, value: str) -> None:
    """Every lease would run twice, on purpose; or executors would come and go by what is none of a lease's needs."""
    with pytest.raises(ConfigError, match=why) as refusal:
        conf_for(SparkSettings(conf={name: value}))
    assert refusal.value.field == f"spark.conf.{name}"
    conf_for(SparkSettings(conf={name: "false"}))


def given(**conf: str) -> Any:
    """A session of a program on a cluster."""
    context = SimpleNamespace(_jsc=object(), master="spark://h:7077", getConf=lambda: conf)
    return SimpleNamespace(sparkContext=context)


def test_a_session_that_gets_executors_as_it_needs_them_is_used_in_part_alone() -> None:
    """Leases would keep what other jobs have asked for, unless it is said how many slots they may have."""
    conf = {"spark.dynamicAllocation.enabled": "true"}
    session = given(**conf)
    with pytest.raises(PlanRefused, match="every executor") as refusal:
        adopt_session(session, SparkSettings())
    assert "spark.slots" in refusal.value.hint
    assert adopt_session(session, SparkSettings(slots=2)) is session
    assert adopt_session(given(), SparkSettings()) is not None
    with pytest.raises(PlanRefused, match="twice"):
        adopt_session(given(**{"spark.speculation": "true"}), SparkSettings(slots=2))


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "oauth.client-secret", "sasl.jaas.config"])
def test_what_looks_like_a_secret_is_redacted(name: str) -> None:
    """Should somebody put one there after all, the UI and the event log do not show it."""
    assert re.search(conf_for(SparkSettings())["spark.redaction.regex"], name)
