"""A cluster as another one remembers it, for whoever keeps, compares or shows that."""

from __future__ import annotations

from isthmus.model.links.lastknown import (
    KnownBroker,
    KnownCluster,
    KnownFeature,
    KnownGroup,
    KnownLog,
    KnownNames,
    KnownRule,
    KnownSetting,
    KnownTopic,
    Untold,
)

EAST = KnownCluster(
    cluster_id="id-of-east",
    alias="east",
    versions=("4.2", "4.3"),
    brokers=2,
    topics=9,
    features=(KnownFeature("metadata.version", 25),),
    link="east-west",
    host="h",
    seen_ms=1_000,
    nodes=(KnownBroker(1, "rack-a", "4.3"),),
)
NAMES = KnownNames(
    cluster_id="id-of-east",
    alias="east",
    link="east-west",
    seen_ms=1_000,
    topics=(
        KnownTopic(
            name="orders",
            replicas=3,
            logs=(KnownLog(0, 5, 9), KnownLog(1, -1, -1)),
            settings=(KnownSetting("retention.ms", "86400000"),),
        ),
    ),
    groups=(KnownGroup("readers", "classic", "Empty"),),
    rules=(KnownRule("ALLOW", "WRITE", "topic", "orders", "LITERAL", "User:#0123", is_for_one_host=True),),
    left_out=7,
    untold=(Untold("rules of groups", "no right to see them"),),
)
