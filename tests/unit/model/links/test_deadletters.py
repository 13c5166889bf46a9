"""The names of topics for dead letters."""

from __future__ import annotations

from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.naming import NAME_CHARACTERS, NAME_CHARACTERS_MAX, TargetTopic


def test_names_are_of_the_link_and_of_the_topic() -> None:
    """As documented; no two links share one, also where dots are in their names, and where names are long."""
    assert dead_letters_of("orders", TargetTopic("a.b")) == "__isthmus.dead-letters.orders.a.b"
    long = "t" * NAME_CHARACTERS_MAX
    pairs = [("orders", "a.b"), ("orders.a", "b"), ("orders", long), ("orders2", long), ("orders", long[:-1] + "u")]
    names = {dead_letters_of(link, TargetTopic(topic)) for link, topic in pairs}
    assert len(names) == len(pairs)
    assert all(len(name) <= NAME_CHARACTERS_MAX and NAME_CHARACTERS.fullmatch(name) for name in names)
