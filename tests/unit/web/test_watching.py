"""How links stand, as somebody is told who asks again after a long time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from isthmus.errors import Unreachable
from isthmus.model.link import Link
from isthmus.web.watching import Watch
from testing.values.standing import link_at, topic_at

NOW = (link_at(topic_at("orders")),)
_LONG_AGO_S = -1.0


async def away() -> tuple[Link, ...]:
    """Clusters that cannot be looked at."""
    raise Unreachable("nobody answers")


def test_what_was_seen_long_ago_is_not_told_for_what_is_now() -> None:
    """While the clusters are away, in metrics for example; beside a run it is what that said last."""
    recent, old, fed = Watch(away), Watch(away, fresh_s=_LONG_AGO_S), Watch(away, is_fed=True, fresh_s=_LONG_AGO_S)
    try:
        for watch in (recent, old, fed):
            watch.take(NOW)
        assert [watch.first(0.0) for watch in (recent, old, fed)] == [NOW, None, NOW]
    finally:
        for watch in (recent, old):
            watch.close()


def test_who_listens_after_a_long_time_is_told_all_links_anew() -> None:
    """At the next look, though nothing is other than at the last one."""
    watch = Watch(away, fresh_s=_LONG_AGO_S)

    async def told() -> list[dict[str, Any]]:
        listener = watch.happenings.listen(None, None)
        assert watch.read_state() == ()
        watch.take(NOW)
        watch.happenings.close()
        stream = watch.happenings.stream(listener, [])
        return [json.loads(line[6:]) async for part in stream for line in part.splitlines() if line[:5] == b"data:"]

    watch.take(NOW)
    (link,) = asyncio.run(told())
    assert link["link"] == "east-west"


def test_who_listens_soon_is_told_what_is_known() -> None:
    """At once."""
    watch = Watch(away)
    watch.take(NOW)

    assert watch.read_state() == NOW
