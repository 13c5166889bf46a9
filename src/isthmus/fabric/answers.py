"""What the fabric takes and gives: values. Each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from isthmus.access.enforcement import Keeping
    from isthmus.clusters.administration import AsyncAdministration, TopicsReport
    from isthmus.clusters.reassigning import (
        AsyncReassigning,
        Reassignment,
        ReassignmentPlan,
        ReassignmentState,
    )
    from isthmus.clusters.registry import RegistryReport
    from isthmus.groups.drill import GroupDrill
    from isthmus.groups.plan import GroupPlan, GroupsPlan, PositionTranslation
    from isthmus.groups.sealing import KEY_BYTES
    from isthmus.kafka.session import ClientSession
    from isthmus.links.pausing import Resumed
    from isthmus.links.promotion import Promoter
    from isthmus.local.operator import acting_as
    from isthmus.memory.authorship import Authorship, authorship
    from isthmus.memory.declared import DeclaredLink, DeclaredTree
    from isthmus.memory.filtering import FILTERS, Filters, FiltersInForce, patterns
    from isthmus.memory.forgetting import Forgotten
    from isthmus.memory.links import now_ms
    from isthmus.memory.livesettings import LiveSettings, SettingsInForce
    from isthmus.memory.provenance import Provenance
    from isthmus.memory.switching import DistributorTarget
    from isthmus.mirrormaker.takeover.execution import TakeoverSettings
    from isthmus.mirrormaker.takeover.plan import LinkTakeover, Outcome, PartitionTakeover, TopicTakeover
    from isthmus.model.links.outcome import RunOutcome
    from isthmus.namespaces.namespace import NamespaceReport
    from isthmus.namespaces.namespaces import AsyncNamespaces
    from isthmus.offsetscopy.copies import CopiedCommit
    from isthmus.recovery.links import LinkRecoverer
    from isthmus.recovery.replaying import QuarantinedPartition, QuarantineFilter, ReplayedPartition
    from isthmus.recovery.showing import SetAsideRecord
    from isthmus.schemas.distribution import OnRegistryChange, RegistrySummary, SchemasPlan
    from isthmus.status.status import StatusReader
    from isthmus.status.waiting import Met, Waiting
    from isthmus.topics.plan import LinkPlan, Plan, TopicPlan
    from isthmus.trees.targets import trees_named

_HOMES: Final = {
    "AsyncAdministration": "isthmus.clusters.administration",
    "TopicsReport": "isthmus.clusters.administration",
    "CopiedCommit": "isthmus.offsetscopy.copies",
    "Keeping": "isthmus.access.enforcement",
    "NamespaceReport": "isthmus.namespaces.namespace",
    "AsyncNamespaces": "isthmus.namespaces.namespaces",
    "AsyncReassigning": "isthmus.clusters.reassigning",
    "Reassignment": "isthmus.clusters.reassigning",
    "ReassignmentPlan": "isthmus.clusters.reassigning",
    "ReassignmentState": "isthmus.clusters.reassigning",
    "RegistryReport": "isthmus.clusters.registry",
    "KEY_BYTES": "isthmus.groups.sealing",
    "GroupDrill": "isthmus.groups.drill",
    "GroupPlan": "isthmus.groups.plan",
    "GroupsPlan": "isthmus.groups.plan",
    "PositionTranslation": "isthmus.groups.plan",
    "Authorship": "isthmus.memory.authorship",
    "authorship": "isthmus.memory.authorship",
    "DeclaredLink": "isthmus.memory.declared",
    "DeclaredTree": "isthmus.memory.declared",
    "FILTERS": "isthmus.memory.filtering",
    "Filters": "isthmus.memory.filtering",
    "FiltersInForce": "isthmus.memory.filtering",
    "patterns": "isthmus.memory.filtering",
    "Forgotten": "isthmus.memory.forgetting",
    "acting_as": "isthmus.local.operator",
    "LiveSettings": "isthmus.memory.livesettings",
    "SettingsInForce": "isthmus.memory.livesettings",
    "now_ms": "isthmus.memory.links",
    "Resumed": "isthmus.links.pausing",
    "task_names": "isthmus.links.pausing",
    "Promoter": "isthmus.links.promotion",
    "Provenance": "isthmus.memory.provenance",
    "StatusReader": "isthmus.status.status",
    "DistributorTarget": "isthmus.memory.switching",
    "trees_named": "isthmus.trees.targets",
    "Met": "isthmus.status.waiting",
    "Waiting": "isthmus.status.waiting",
    "ClientSession": "isthmus.kafka.session",
    "LinkRecoverer": "isthmus.recovery.links",
    "QuarantineFilter": "isthmus.recovery.replaying",
    "QuarantinedPartition": "isthmus.recovery.replaying",
    "ReplayedPartition": "isthmus.recovery.replaying",
    "SetAsideRecord": "isthmus.recovery.showing",
    "RunOutcome": "isthmus.model.links.outcome",
    "OnRegistryChange": "isthmus.schemas.distribution",
    "RegistrySummary": "isthmus.schemas.distribution",
    "SchemasPlan": "isthmus.schemas.distribution",
    "TakeoverSettings": "isthmus.mirrormaker.takeover.execution",
    "LinkTakeover": "isthmus.mirrormaker.takeover.plan",
    "Outcome": "isthmus.mirrormaker.takeover.plan",
    "PartitionTakeover": "isthmus.mirrormaker.takeover.plan",
    "TopicTakeover": "isthmus.mirrormaker.takeover.plan",
    "LinkPlan": "isthmus.topics.plan",
    "Plan": "isthmus.topics.plan",
    "TopicPlan": "isthmus.topics.plan",
}
__all__ = [
    "FILTERS",
    "KEY_BYTES",
    "AsyncAdministration",
    "AsyncNamespaces",
    "AsyncReassigning",
    "Authorship",
    "ClientSession",
    "CopiedCommit",
    "DeclaredLink",
    "DeclaredTree",
    "DistributorTarget",
    "Filters",
    "FiltersInForce",
    "Forgotten",
    "GroupDrill",
    "GroupPlan",
    "GroupsPlan",
    "Keeping",
    "LinkPlan",
    "LinkRecoverer",
    "LinkTakeover",
    "LiveSettings",
    "Met",
    "NamespaceReport",
    "OnRegistryChange",
    "Outcome",
    "PartitionTakeover",
    "Plan",
    "PositionTranslation",
    "Promoter",
    "Provenance",
    "QuarantineFilter",
    "QuarantinedPartition",
    "Reassignment",
    "ReassignmentPlan",
    "ReassignmentState",
    "RegistryReport",
    "RegistrySummary",
    "ReplayedPartition",
    "Resumed",
    "RunOutcome",
    "SchemasPlan",
    "SetAsideRecord",
    "SettingsInForce",
    "StatusReader",
    "TakeoverSettings",
    "TopicPlan",
    "TopicTakeover",
    "TopicsReport",
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
