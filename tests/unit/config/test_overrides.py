"""Variables of the environment that replace keys of the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import config
from isthmus.errors import ConfigError
from isthmus.model.configuration import Configuration

TEXT = """
clusters:
  east: {bootstrap_servers: "east:9092"}
  far-west: {bootstrap_servers: ["west:9092"]}
links:
  - {name: east-west, source: east, target: far-west, topics: {include: ["*"]}}
"""


def loaded(**variables: str) -> Configuration:
    """The file with these variables set."""
    return config.parse(TEXT, environment={f"ISTHMUS_{name}": value for name, value in variables.items()})


def test_text_and_lists() -> None:
    """A key takes text as it is, or a list in YAML; what is no letter of a key is an underscore."""
    found = loaded(
        CLUSTERS__FAR_WEST__BOOTSTRAP_SERVERS="one:1,two:2",
        LINKS__EAST_WEST__TOPICS__INCLUDE="[orders, flights]",
    )

    assert found.cluster("far-west").bootstrap_servers == ("one:1", "two:2")
    assert [str(pattern) for pattern in found.link("east-west").topics.include] == ["orders", "flights"]


def test_numbers_sizes_and_truth() -> None:
    """Where a key takes no text, the value is read as YAML; sections that the file lacks are made."""
    found = loaded(
        LINKS__0__LIMITS__BYTES_PER_S="10MB",
        LEDGER__REPLICATION_FACTOR="1",
        METRICS__PARTITIONS="true",
        LINKS__EAST_WEST__LIMITS__BYTES_IN_FLIGHT="",
    )

    assert found.link("east-west").limits.bytes_per_s == 10_000_000
    assert found.ledger.replication_factor == 1
    assert found.metrics.partitions


def test_a_secret_is_text_and_not_warned_of() -> None:
    """A password of digits stays text, and one that is given by a variable is not written out."""
    found = loaded(
        CLUSTERS__EAST__SECURITY__PROTOCOL="SASL_PLAINTEXT",
        CLUSTERS__EAST__SECURITY__MECHANISM="PLAIN",
        CLUSTERS__EAST__SECURITY__USERNAME="ada",
        CLUSTERS__EAST__SECURITY__PASSWORD="0123",
    )

    security = found.cluster("east").security
    assert security.password is not None
    assert security.password.reveal() == "0123"
    assert found.warnings == ()


def test_a_reference_is_followed() -> None:
    """What a variable gives may refer elsewhere, as what the file holds."""
    variables = {"ISTHMUS_CLUSTERS__EAST__BOOTSTRAP_SERVERS": "${env:HOST}:1", "HOST": "there"}

    assert config.parse(TEXT, environment=variables).cluster("east").bootstrap_servers == ("there:1",)


def test_a_cluster_that_the_file_lacks() -> None:
    """A map of sections gets another one, under its name in small letters."""
    assert loaded(CLUSTERS__NORTH__BOOTSTRAP_SERVERS="north:1").cluster("north").bootstrap_servers == ("north:1",)


@pytest.mark.parametrize(
    ("variable", "value", "message", "hint"),
    [
        ("CLUSTER__EAST__CLIENT_ID", "a", "the file has no key cluster", "Did you mean clusters?"),
        ("CLUSTERS__EAST__CLIENTID", "a", "clusters.east has no key clientid", "Did you mean client_id?"),
        ("LINKS__NORTH__SOURCE", "a", "links has no north", "There is east-west"),
        ("LINKS__EAST_WEST__TOPICS__INCLUDE", "[a", "this is not YAML", "indentation"),
        ("LEDGER__REPLICATION_FACTOR", "many", "must be a whole number", "Replicas of the ledger"),
        (
            "LEDGER__REPLICATION_FACTOR__MORE",
            "1",
            "ledger.replication_factor has no key more",
            "have to be in the file",
        ),
        ("SPARK__CONF__SPARK_X", "1", "spark.conf has no key spark_x", "have to be in the file"),
    ],
)
def test_what_leads_nowhere_is_refused(variable: str, value: str, message: str, hint: str) -> None:
    """The error names the variable, and what could be meant."""
    with pytest.raises(ConfigError, match=f"ISTHMUS_{variable}") as refused:
        loaded(**{variable: value})

    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_all_mistakes_are_told_at_once() -> None:
    """As those of the file are."""
    with pytest.raises(ConfigError) as refused:
        loaded(LEDGER__A="1", LINKS__B__C="1")

    assert str(refused.value).count("ISTHMUS_") == 2


@given(st.dictionaries(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", min_size=1, max_size=30), st.text(max_size=20)))
def test_whatever_the_environment_holds(variables: dict[str, str]) -> None:
    """Names without a meaning are refused, each, and never anything else happens."""
    with pytest.raises(ConfigError):
        loaded(**{f"{name}__X": value for name, value in variables.items()}, A__B="")
