"""A survey of a cluster for an operator who configures a link for the first time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSurvey:
    """A cluster that answered. Topics and groups are those we may see, sorted, without Kafka's own."""

    cluster_id: str
    brokers: int
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
