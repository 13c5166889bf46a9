"""Dead letters: records that the transform of a link could not change, kept as they were in a topic of the link."""

from __future__ import annotations

from typing import Final

from isthmus.model.naming import NAME_CHARACTERS_MAX, TargetTopic, with_digest

DEAD_LETTERS_PREFIX: Final = "__isthmus.dead-letters."


def dead_letters_of(link: str, topic: TargetTopic) -> str:
    """Return the topic at the target for the dead letters of one of the link's topics, named as at the target.

    A name that is too long, or that another link could have too, ends with a digest.
    """
    name = f"{DEAD_LETTERS_PREFIX}{link}.{topic}"
    # Brokers refuse a topic whose name differs from another's only in dots and underscores.
    is_plain = not set("._").intersection(link) and len(name) <= NAME_CHARACTERS_MAX
    return name if is_plain else with_digest(name, of=f"{link}/{topic}")


def letters_transaction_of(link: str, topic: TargetTopic, partition: int) -> str:
    """Return the transactional id by which the dead letters of a partition are written: one for each topic for them."""
    return f"{_transactions_of(link, topic)}-{partition}.letters"


def replay_transaction_of(link: str, topic: TargetTopic) -> str:
    """Return the transactional id by which the dead letters of a topic are replayed."""
    return f"{_transactions_of(link, topic)}.replay-letters"


def _transactions_of(link: str, topic: TargetTopic) -> str:
    return f"isthmus.{dead_letters_of(link, topic).removeprefix(DEAD_LETTERS_PREFIX)}"
