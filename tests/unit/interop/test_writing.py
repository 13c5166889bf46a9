"""The configuration as text."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from isthmus.interop.writing import format_file

# Surrogates are no text: no file in any encoding holds one.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEY = st.text("abcz_", min_size=1, max_size=4)
SCALAR = TEXT | st.integers() | st.booleans()
SECTION = st.dictionaries(KEY, SCALAR | st.lists(TEXT, max_size=3), min_size=1, max_size=3)
SECTIONS = st.dictionaries(KEY, SECTION | st.lists(SECTION, min_size=1, max_size=2), min_size=1, max_size=3)


@given(SECTIONS, TEXT, TEXT)
def test_yaml_reads_what_was_written(sections: dict[str, object], head: str, comment: str) -> None:
    """Whatever texts and comments hold, the sections are read as they were."""
    first = next(iter(sections))
    text = format_file(sections, {(first,): comment, (first, "missing"): comment}, head)

    assert yaml.safe_load(text) == sections


def test_comments_stand_before_what_they_are_about() -> None:
    """Before a key, before an item's key, and where a key would be that is not there."""
    comments = {("a", "b"): "about b", ("a", "0", "c"): "nothing", ("l", "0", "k"): "about k", ("l", "0", "x"): "no x"}

    assert format_file({"a": {"b": 1}, "l": [{"m": "yes", "k": {}}]}, comments, "Made.\n\nSo.") == (
        '# Made.\n#\n# So.\na:\n  # about b\n  b: 1\nl:\n  - m: "yes"\n    # about k\n    k: {}\n    # no x\n'
    )


def test_long_comments_are_wrapped() -> None:
    """No line is wider than others of the project."""
    text = format_file({"a": {"b": 1}}, {("a", "b"): "word " * 60}, "Head.")

    assert max(map(len, text.splitlines())) <= 120
