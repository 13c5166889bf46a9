"""The names of topics for dead letters."""

from __future__ import annotations

from isthmus.model.links.deadletters import dead_letters_of, letters_transaction_of, replay_transaction_of
from isthmus.model.naming import NAME_CHARACTERS, NAME_CHARACTERS_MAX, TargetTopic


def test_names_are_of_the_link_and_of_the_topic() -> None:
    """As documented; no two links share one, also where dots are in their names, and where names are long."""
    assert dead_letters_of("orders", TargetTopic("a.b")) == "__isthmus.dead-letters.orders.a.b"
    long = "t" * NAME_CHARACTERS_MAX
    pairs = [("orders", "a.b"), ("orders.a", "b"), ("orders", long), ("orders2", long), ("orders", long[:-1] + "u")]
    names = {dead_letters_of(link, TargetTopic(topic)) for link, topic in pairs}
    assert len(names) == len(pairs)
    alike = dead_letters_of("a_b", TargetTopic("c")), dead_letters_of("a", TargetTopic("b.c"))
    assert len({name.replace("_", ".") for name in alike}) == 2
    assert all(len(name) <= NAME_CHARACTERS_MAX and NAME_CHARACTERS.fullmatch(name) for name in names)


def test_transactional_ids_differ_wherever_topics_do() -> None:
    """No two links, topics or partitions fence each other's letters, whatever dots their names have."""
    pairs = [("a", "b.c"), ("a.b", "c"), ("a.b", "c-1"), ("a", "b.c-1"), ("a", "x" * 249), ("b", "x" * 249)]
    named = {letters_transaction_of(link, TargetTopic(topic), number) for link, topic in pairs for number in (0, 11)}
    assert len(named) == 2 * len(pairs)
    replays = {replay_transaction_of(link, TargetTopic(topic)) for link, topic in pairs}
    assert len(replays | named) == 3 * len(pairs)
    assert letters_transaction_of("a", TargetTopic("b.c"), 3) == "isthmus.a.b.c-3.letters"
    assert all(each.startswith("isthmus.") and each.endswith(".letters") for each in named)
