"""YAML documents and the lines their values stand on."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.config.reading.document import ConfigDocument, format_path
from isthmus.errors import ConfigError

TEXT = """\
clusters:
  east:
    bootstrap_servers:
      - one:9092
      - two:9092
links: []
"""


def test_values_are_plain() -> None:
    """Maps become dicts, lists tuples, and scalars what YAML says they are."""
    document = ConfigDocument.parse(TEXT, "isthmus.yaml")

    assert document.root == {
        "clusters": {"east": {"bootstrap_servers": ("one:9092", "two:9092")}},
        "links": (),
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("clusters",), 1),
        (("clusters", "east", "bootstrap_servers", 1), 5),
        (("links",), 6),
        (("clusters", "east", "security", "password"), 2),
    ],
)
def test_line_of_a_path(path: tuple[str | int, ...], line: int) -> None:
    """A value's line is its key's; what is not written is where its section begins."""
    assert ConfigDocument.parse(TEXT, "isthmus.yaml").line(path) == line


def test_keys_are_texts_as_written() -> None:
    """A cluster may be called `no` or `1` without becoming a truth value or a number."""
    assert ConfigDocument.parse("{no: a, 1: b}", "x").root == {"no": "a", "1": "b"}


def test_empty_document_is_empty() -> None:
    """A file with comments only is an empty section, so that what is missing can be told."""
    assert ConfigDocument.parse("# nothing\n", "x").root == {}


def test_alias_repeats_a_value() -> None:
    """Anchors are the YAML way to write one security section for two clusters."""
    root = ConfigDocument.parse("{a: &s {b: 1}, c: *s}", "x").root

    assert root == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a is written twice"),
        ("a:\n  b: &x\n    c: *x\n", 3, "a.b.c contains itself"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a: !!python/object:os.system x\n", 1, "not YAML"),
        ("a: 'x\n", 2, "not YAML"),
        ("a: 1\nb: \x07\n", 2, "not YAML"),
        ("a: 1\nb: 2024-13-45\n", 2, "b looks like a date"),
        ("a: !!bool x\n", 1, "a looks like"),
        ("[" * 5000, None, "nested too deeply"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str, line: int | None, says: str) -> None:
    """Whatever is wrong with the text, the error says what, where and what to do."""
    with pytest.raises(ConfigError, match=says) as caught:
        ConfigDocument.parse(text, "isthmus.yaml")

    assert caught.value.line == line
    assert caught.value.hint


def test_broken_text_is_not_repeated() -> None:
    """An error in the line of a password does not show the password."""
    with pytest.raises(ConfigError) as caught:
        ConfigDocument.parse("password: hunter2: oops\n", "isthmus.yaml")

    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text whatsoever ends in anything but a document or a ConfigError."""
    with contextlib.suppress(ConfigError):
        ConfigDocument.parse(text, "x")


def test_dotted_path() -> None:
    """Paths are written the way people point at them."""
    assert format_path(("links", 0, "topics", "include", 2)) == "links[0].topics.include[2]"
