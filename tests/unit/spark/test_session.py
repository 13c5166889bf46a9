"""The Spark configuration that leases run with."""

from __future__ import annotations

import re

import pytest

from isthmus.errors import ConfigError
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import conf_for


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
def test_speculation_is_refused(value: str) -> None:
    """It would run every lease twice, on purpose."""
    with pytest.raises(ConfigError, match="twice") as refusal:
        conf_for(SparkSettings(conf={"spark.speculation": value}))
    assert refusal.value.field == "spark.conf.spark.speculation"


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "oauth.client-secret", "sasl.jaas.config"])
def test_what_looks_like_a_secret_is_redacted(name: str) -> None:
    """Should somebody put one there after all, the UI and the event log do not show it."""
    assert re.search(conf_for(SparkSettings())["spark.redaction.regex"], name)
