"""The map: where clusters and links are drawn."""

from __future__ import annotations

import math

from isthmus.web.console.atlas import draw


def test_links_of_a_pair_do_not_lie_on_one_another() -> None:
    """Each has a curve and a label of its own, in whichever direction it goes."""
    links = [("a", "east", "west"), ("b", "west", "east"), ("c", "east", "west")]
    found = draw(["east", "west"], links)

    assert len({road.path for road in found.roads}) == 3
    labels = [(road.x, road.y) for road in found.roads]
    gaps = [math.dist(one, other) for one in labels for other in labels if one != other]
    assert min(gaps) > 30


def test_many_clusters_stand_apart_within_the_map() -> None:
    """No box touches another or the edge."""
    found = draw([f"c{number}" for number in range(20)], [])
    width, height = found.box

    for each in found.places:
        assert width / 2 <= each.x <= found.width - width / 2
        assert height / 2 <= each.y <= found.height - height / 2
    for one in found.places:
        for other in found.places:
            assert one == other or abs(one.x - other.x) > width or abs(one.y - other.y) > height


def test_labels_of_two_clusters_stay_on_the_map() -> None:
    """However many links there are between them."""
    found = draw(["east", "west"], [(f"l{number}", "east", "west") for number in range(9)])

    assert all(road.y - 16 > 0 and road.y + 16 < found.height for road in found.roads)


def test_a_map_of_nothing_is_empty() -> None:
    """And one of a single cluster has one place."""
    assert draw([], []).places == ()
    assert len(draw(["east"], []).places) == 1
