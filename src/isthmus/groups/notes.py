"""Notes on what works less well for the groups of a link than it could, and what would help."""

from __future__ import annotations

from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.model.kafka.rights import grant, on_topic, on_transactional_id
from isthmus.model.link import Link
from isthmus.model.problem import Problem


def notes_of(link: Link, polls_because: str, unguarded_because: str) -> tuple[Problem, ...]:
    """Return what works less well for a link than it could, and what would help; an empty reason adds no note."""
    notes = []
    if polls_because:
        right = on_topic("READ", OFFSETS_TOPIC)
        hint = grant(right, link.source.alias, "commits are then followed within milliseconds")
        notes.append(Problem(f"commits are asked for once a second: {polls_because}", hint))
    if unguarded_because:
        message = f"a commit that a consumer makes in the very moment of ours could be lost: {unguarded_because}"
        right = on_transactional_id("WRITE", f"isthmus.{link.name}.groups")
        notes.append(Problem(message, grant(right, link.target.alias)))
    return tuple(notes)
