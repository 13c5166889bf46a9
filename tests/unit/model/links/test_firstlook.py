"""Which topics came after a link had looked for them."""

from __future__ import annotations

import pytest

from isthmus.model.links.firstlook import FirstLook
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern, TopicSettings

EVERYTHING = (TopicPattern.parse("*"),)


@pytest.mark.parametrize(("topic", "is_later"), [("orders", True), ("audit-1", False), ("waited", False)])
def test_what_was_not_selected_then_may_have_been_there(topic: str, is_later: bool) -> None:
    """As what was excluded and is not any more; so was what the link waited for."""
    look = FirstLook(EVERYTHING, (TopicPattern.parse("audit-*"),), waiting=(SourceTopic("waited"),))

    assert look.is_later(SourceTopic(topic), TopicSettings(include=EVERYTHING)) is is_later


def test_of_a_namespace_that_came_since_nothing_is_later() -> None:
    """Its topics may have been there when the link looked at other namespaces."""
    maps = tuple(NamespaceMap.parse(f"{name}-") for name in "ab")
    before, now = (TopicSettings(include=EVERYTHING, naming=NamespaceNaming(each)) for each in (maps[:1], maps))
    look = FirstLook.of(before)

    assert [look.is_later(SourceTopic(name), now) for name in ("a-1", "b-1")] == [True, False]
