"""Whatever is given: a configuration and a report, or an error that says what to do."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.interop.drafting import Draft, draft_of
from isthmus.interop.equivalents import ALIASES, EQUIVALENTS
from isthmus.interop.reading import read_deployment
from testing.values.samples import CONNECTORS, SHIPPED, STRIMZI, Bench, about, imported, pair

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'
LOGIN = pair(
    "security.protocol = SASL_SSL",
    "sasl.mechanism = PLAIN",
    f"a.sasl.jaas.config = {JAAS}",
    f"b.sasl.jaas.config = {JAAS}",
    "a.ssl.truststore.location = t",
    "a.ssl.truststore.password = hunter2",
)
SAMPLES = [SHIPPED, CONNECTORS, STRIMZI, LOGIN]


def judged(data: bytes) -> None:
    """The one way or the other: never a crash, and never a file that is no YAML."""
    found = outcome(data)
    if isinstance(found, ConfigError):
        assert found.hint
    else:
        assert set(yaml.safe_load(found.text)) == {"clusters", "links"}


def outcome(data: bytes) -> Draft | ConfigError:
    """What becomes of a file."""
    try:
        return draft_of(read_deployment(data, "given"), Bench(), folder="isthmus.secrets")
    except ConfigError as error:
        return error


@pytest.mark.parametrize(
    "line", [f"{key} = hunter2" for key in ("a.ssl.key.password", "sasl.password", "a.b", "a->b.x")]
)
def test_no_secret_is_seen(line: str) -> None:
    """Neither those where they belong, nor those under keys that nobody knows."""
    draft = imported(LOGIN + line)

    assert "hunter2" not in draft.text + repr(draft)


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(data: bytes) -> None:
    """No bytes make an import fail otherwise."""
    judged(data)


@settings(max_examples=60)
@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_files_are_judged(sample: str, data: st.DataObject) -> None:
    """A piece taken out, doubled or replaced anywhere."""
    begin = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(begin, min(len(sample), begin + 40)))
    piece = data.draw(
        st.sampled_from(["", sample[begin:end] * 2, "\\", '"', "{", ": ", "${", "\t", "é", "[*a]", "null", "\0"])
    )
    judged((sample[:begin] + piece + sample[end:]).encode())


@settings(max_examples=60)
@given(st.sampled_from(sorted({*EQUIVALENTS, *ALIASES})), st.text("ab.*\\$é{}:(,1-[ ", max_size=12))
def test_any_value_is_judged(key: str, value: str) -> None:
    """Each setting with values that nobody meant, for a flow and for all."""
    for prefix in ("", "a->b.", "a."):
        judged(pair(f"{prefix}{key} = {value}").encode())


@pytest.mark.parametrize("piece", ["${:", "\\", " ", "\n", "[", "(", "{", '"', "a=", "- ", "&a "])
@pytest.mark.timeout(60)
def test_much_of_anything_takes_no_time(piece: str) -> None:
    """Nothing takes longer by the square of the length: alone, in a value, and in one of the other forms."""
    mass = piece * (60_000 // len(piece))
    for text in (mass, pair(f"a->b.topics = x{mass}x"), f"kind: KafkaMirrorMaker2\nspec: {mass}", f'{{"a": {mass}'):
        judged(text.encode())


@pytest.mark.parametrize("count", [1, 3])
def test_long_lists_take_no_time(count: int) -> None:
    """Thousands of topics and a very long expression are translated at once."""
    names = ", ".join(f"topic-{number}" for number in range(5_000 * count))
    draft = imported(pair(f"topics = {names}", f"groups = {'(a|' * 40}b{')' * 40}"))

    assert draft.text.count("topic-") == 5_000 * count


def test_names_cannot_lead_out_of_the_folder() -> None:
    """Files beside the configuration have names of the importer's making."""
    text = (
        LOGIN.replace("clusters = a, b", "clusters = a, b, ../x") + "../x.bootstrap.servers=z:1\na->../x.enabled=true\n"
    )

    with pytest.raises(ConfigError, match=re.escape("'../x' cannot be the alias")):
        imported(text)


def test_terminal_codes_stay_out_of_the_file() -> None:
    """What others have written cannot pretend to be a line of the configuration, or move the cursor."""
    draft = imported(pair("a->b.topic.filter.class = x.\\u001b[2J\\nlinks: []"))

    assert "\x1b" not in draft.text
    assert len(yaml.safe_load(draft.text)["links"]) == 1
    assert about(draft, "a->b.topic.filter.class").todo
