"""What a trial shows of records."""

from __future__ import annotations

from isthmus.model.links.trial import TrialResult, TriedRecord, readable, shown_record


def test_bytes_are_shown_as_text_as_far_as_they_are_one() -> None:
    """Nothing that moves a cursor, and nothing that is lost."""
    assert readable(None) is None
    assert readable("grün".encode()) == "grün"
    assert readable(b"\x00\x00\x01\xffa\nb\x1b") == "\\x00\\x00\\x01\\xffa\\nb\\x1b"


def test_parts_that_differ_are_named_by_their_paths() -> None:
    """Headers of one name are counted, and what is gone differs from what is null."""
    before = shown_record(1, b"k", b"v", [("a", b"1"), ("a", b"2"), ("b", None)])
    after = shown_record(1, None, b"v", [("a", b"1"), ("c\udcff", b"3")])
    tried = TriedRecord(partition=0, offset=5, result=TrialResult.CHANGED, before=before, after=after)

    assert tried.differences == {
        "key": ("k", None),
        "headers.a (2)": ("2", None),
        "headers.b": (None, None),
        "headers.c\\xff": (None, "3"),
    }
