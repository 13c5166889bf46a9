"""What the fabric takes and gives: values, for whoever asks it. Each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from isthmus.control.clusters.administration import AsyncAdministration
    from isthmus.control.clusters.enforcement import Keeping
    from isthmus.control.clusters.namespace import NamespaceReport
    from isthmus.control.clusters.namespaces import AsyncNamespaces
    from isthmus.control.clusters.reassigning import (
        AsyncReassigning,
        Reassignment,
        ReassignmentPlan,
        ReassignmentState,
    )
    from isthmus.control.clusters.sealing import KEY_BYTES
    from isthmus.control.groups.drill import GroupDrill
    from isthmus.control.groups.plan import GroupPlan, GroupsPlan
    from isthmus.control.links.authorship import Authorship, authorship
    from isthmus.control.links.declared import DeclaredLink, DeclaredTree
    from isthmus.control.links.filtering import FILTERS, Filters, patterns
    from isthmus.control.links.host import acting_as
    from isthmus.control.links.livesettings import LiveSettings
    from isthmus.control.links.memory import now_ms
    from isthmus.control.links.pausing import Resumed
    from isthmus.control.links.promotion import Promoter
    from isthmus.control.links.status import StatusReader
    from isthmus.control.links.switching import DistributorTarget
    from isthmus.control.links.trees import trees_named
    from isthmus.control.links.waiting import Waiting
    from isthmus.control.pool import ClusterPool
    from isthmus.control.recovery.links import LinkRecoverer
    from isthmus.control.recovery.replaying import QuarantineFilter
    from isthmus.control.running.outcome import RunOutcome
    from isthmus.control.schemas.distribution import OnRegistryChange, SchemasPlan
    from isthmus.control.takeover.execution import TakeoverSettings
    from isthmus.control.takeover.plan import LinkTakeover, Outcome, PartitionTakeover, TopicTakeover
    from isthmus.control.topics.plan import LinkPlan, Plan, TopicPlan

_HOMES: Final = {
    "AsyncAdministration": "isthmus.control.clusters.administration",
    "NamespaceReport": "isthmus.control.clusters.namespace",
    "AsyncNamespaces": "isthmus.control.clusters.namespaces",
    "AsyncReassigning": "isthmus.control.clusters.reassigning",
    "Reassignment": "isthmus.control.clusters.reassigning",
    "ReassignmentPlan": "isthmus.control.clusters.reassigning",
    "ReassignmentState": "isthmus.control.clusters.reassigning",
    "Keeping": "isthmus.control.clusters.enforcement",
    "GroupDrill": "isthmus.control.groups.drill",
    "GroupPlan": "isthmus.control.groups.plan",
    "GroupsPlan": "isthmus.control.groups.plan",
    "KEY_BYTES": "isthmus.control.clusters.sealing",
    "Authorship": "isthmus.control.links.authorship",
    "authorship": "isthmus.control.links.authorship",
    "DeclaredLink": "isthmus.control.links.declared",
    "DeclaredTree": "isthmus.control.links.declared",
    "FILTERS": "isthmus.control.links.filtering",
    "Filters": "isthmus.control.links.filtering",
    "patterns": "isthmus.control.links.filtering",
    "acting_as": "isthmus.control.links.host",
    "LiveSettings": "isthmus.control.links.livesettings",
    "now_ms": "isthmus.control.links.memory",
    "Resumed": "isthmus.control.links.pausing",
    "task_names": "isthmus.control.links.pausing",
    "Promoter": "isthmus.control.links.promotion",
    "StatusReader": "isthmus.control.links.status",
    "DistributorTarget": "isthmus.control.links.switching",
    "trees_named": "isthmus.control.links.trees",
    "Waiting": "isthmus.control.links.waiting",
    "ClusterPool": "isthmus.control.pool",
    "LinkRecoverer": "isthmus.control.recovery.links",
    "QuarantineFilter": "isthmus.control.recovery.replaying",
    "RunOutcome": "isthmus.control.running.outcome",
    "OnRegistryChange": "isthmus.control.schemas.distribution",
    "SchemasPlan": "isthmus.control.schemas.distribution",
    "TakeoverSettings": "isthmus.control.takeover.execution",
    "LinkTakeover": "isthmus.control.takeover.plan",
    "Outcome": "isthmus.control.takeover.plan",
    "PartitionTakeover": "isthmus.control.takeover.plan",
    "TopicTakeover": "isthmus.control.takeover.plan",
    "LinkPlan": "isthmus.control.topics.plan",
    "Plan": "isthmus.control.topics.plan",
    "TopicPlan": "isthmus.control.topics.plan",
}
__all__ = [
    "FILTERS",
    "KEY_BYTES",
    "AsyncAdministration",
    "AsyncNamespaces",
    "AsyncReassigning",
    "Authorship",
    "ClusterPool",
    "DeclaredLink",
    "DeclaredTree",
    "DistributorTarget",
    "Filters",
    "GroupDrill",
    "GroupPlan",
    "GroupsPlan",
    "Keeping",
    "LinkPlan",
    "LinkRecoverer",
    "LinkTakeover",
    "LiveSettings",
    "NamespaceReport",
    "OnRegistryChange",
    "Outcome",
    "PartitionTakeover",
    "Plan",
    "Promoter",
    "QuarantineFilter",
    "Reassignment",
    "ReassignmentPlan",
    "ReassignmentState",
    "Resumed",
    "RunOutcome",
    "SchemasPlan",
    "StatusReader",
    "TakeoverSettings",
    "TopicPlan",
    "TopicTakeover",
    "Waiting",
    "acting_as",
    "authorship",
    "now_ms",
    "patterns",
    "trees_named",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for (PEP 562): a command needs a few of these, and all of them take a while to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_HOMES[name]), name)
