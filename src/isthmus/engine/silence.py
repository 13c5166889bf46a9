"""Leaves silent brokers: one that is frozen or cut off cannot report that another leads now, but the cluster can."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from isthmus.engine.appender import TargetAppender
from isthmus.engine.brokers.routes import Leader, SourceRoutes, TargetRoutes
from isthmus.engine.reader import SourceReader
from isthmus.engine.run import LaneRun


async def leave_readers(readers: Collection[SourceReader], routes: SourceRoutes) -> list[LaneRun]:
    """Stop reading lanes from silent source brokers if others lead them now. Return those lanes, to be rerouted."""
    if not any(reader.is_silent for reader in readers):
        return []
    await routes.refresh()

    def has_moved(node_id: int, run: LaneRun) -> bool:
        return _is_led_by_another(routes.leader(*run.source), node_id)

    return [run for reader in list(readers) for run in reader.leave(partial(has_moved, reader.node_id))]


async def leave_appenders(appenders: Collection[TargetAppender], routes: TargetRoutes) -> None:
    """Give up requests to silent target brokers if others lead the partitions now."""
    if not any(appender.is_silent for appender in appenders):
        return
    await routes.refresh()

    def has_moved(node_id: int, run: LaneRun) -> bool:
        return _is_led_by_another(routes.leader(*run.target), node_id)

    for appender in list(appenders):
        appender.leave(partial(has_moved, appender.node_id))


def _is_led_by_another(leader: Leader | None, node_id: int) -> bool:
    return leader is not None and leader.node_id != node_id
