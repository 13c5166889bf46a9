"""What a cluster is known by."""

from __future__ import annotations

import pytest

from isthmus.model.cluster import is_cluster_id


@pytest.mark.parametrize("text", ["o56lAA9DSDyno31XKQeYNg", "5L6g3nShT-eMCtK--X86sw", "a", "_" * 22])
def test_cluster_ids_as_kafka_makes_them(text: str) -> None:
    """At most 22 characters of URL-safe Base64 without padding (seed 003)."""
    assert is_cluster_id(text)


@pytest.mark.parametrize("text", ["", "a" * 23, "with space", "pad=", "ü", "a\n"])
def test_other_texts_are_no_cluster_ids(text: str) -> None:
    """Whatever else answers in the place of an id is refused."""
    assert not is_cluster_id(text)
