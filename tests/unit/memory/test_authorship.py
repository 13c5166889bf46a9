"""What ledgers hold at somebody's word."""

from __future__ import annotations

from typing import Any

from isthmus.ledger.documents.kinds import (
    DeclarationDocument,
    FiltersDocument,
    NamespaceDocument,
    PauseDocument,
    SettingsDocument,
    TaskPauseDocument,
)
from isthmus.memory.authorship import Authored, said_in
from isthmus.model.registers import Register


def test_whatever_has_an_author_is_told() -> None:
    """Filters, settings, pauses, and each thing that was declared: who said it, when, and of what."""
    register = Register(name="mode", value='"async"', version=2, at_ms=5, by="anna", where="S")
    said: dict[str, Any] = {"link": "l", "since_ms": 5, "by": "anna"}
    documents = [
        FiltersDocument(**said, topics_include=("a", "b"), groups_exclude=()),
        SettingsDocument(**said, settings=(("limits.bytes_per_s", "5"),)),
        PauseDocument(**said),
        TaskPauseDocument(**said, task="configs"),
        DeclarationDocument(link="l", cluster="S", registers=(register,)),
        NamespaceDocument(kind="topic", prefix="local-", cluster="S", registers=(register,)),
    ]

    assert list(said_in(documents)) == [
        Authored(at_ms=5, by="anna", what=what, subject=subject, value=value)
        for what, subject, value in (
            ("filters", "link l", "topics_include a, b; groups_exclude nothing"),
            ("settings", "link l", "limits.bytes_per_s=5"),
            ("pause", "link l", "all of it"),
            ("pause", "link l", "configs"),
            ("mode", "link l", '"async"'),
            ("mode", "namespace topic/local-*", '"async"'),
        )
    ]
