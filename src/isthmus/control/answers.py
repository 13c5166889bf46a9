"""What the fabric takes and gives: values, for whoever asks it. Each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from isthmus.control.clusters.administration import AsyncAdministration, TopicsReport
    from isthmus.control.clusters.copies import CopiedCommitJson
    from isthmus.control.clusters.enforcement import Keeping
    from isthmus.control.clusters.namespace import NamespaceReport, NamespaceReportJson
    from isthmus.control.clusters.namespaces import AsyncNamespaces
    from isthmus.control.clusters.reassigning import (
        AsyncReassigning,
        Reassignment,
        ReassignmentPlan,
        ReassignmentState,
    )
    from isthmus.control.clusters.registry import RegistryReportJson
    from isthmus.control.clusters.sealing import KEY_BYTES
    from isthmus.control.groups.drill import GroupDrill, GroupDrillJson
    from isthmus.control.groups.plan import GroupPlan, GroupsPlan
    from isthmus.control.groups.planforms import GroupsPlanJson, TranslationJson
    from isthmus.control.links.authorship import Authorship, authorship
    from isthmus.control.links.declared import DeclaredLink, DeclaredLinkJson, DeclaredTree, DeclaredTreeJson
    from isthmus.control.links.filtering import FILTERS, Filters, FiltersJson, patterns
    from isthmus.control.links.forgetting import Forgotten
    from isthmus.control.links.host import acting_as
    from isthmus.control.links.livesettings import LiveSettings, LiveSettingsJson
    from isthmus.control.links.memory import now_ms
    from isthmus.control.links.pausing import Resumed
    from isthmus.control.links.promotion import Promoter
    from isthmus.control.links.provenance import Provenance
    from isthmus.control.links.status import StatusReader
    from isthmus.control.links.switching import DistributorTarget, DistributorTargetJson
    from isthmus.control.links.trees import trees_named
    from isthmus.control.links.waiting import MetJson, Waiting
    from isthmus.control.pool import ClusterPool
    from isthmus.control.recovery.links import LinkRecoverer
    from isthmus.control.recovery.replaying import QuarantinedPartitionJson, QuarantineFilter, ReplayedPartitionJson
    from isthmus.control.running.outcome import RunOutcome
    from isthmus.control.schemas.distribution import OnRegistryChange, RegistrySummary, SchemasPlan, SchemasPlanJson
    from isthmus.control.takeover.execution import TakeoverSettings
    from isthmus.control.takeover.plan import LinkTakeover, Outcome, PartitionTakeover, TopicTakeover
    from isthmus.control.topics.plan import LinkPlan, Plan, PlanJson, TopicPlan

_HOMES: Final = {
    "AsyncAdministration": "isthmus.control.clusters.administration",
    "TopicsReport": "isthmus.control.clusters.administration",
    "CopiedCommitJson": "isthmus.control.clusters.copies",
    "Keeping": "isthmus.control.clusters.enforcement",
    "NamespaceReport": "isthmus.control.clusters.namespace",
    "NamespaceReportJson": "isthmus.control.clusters.namespace",
    "AsyncNamespaces": "isthmus.control.clusters.namespaces",
    "AsyncReassigning": "isthmus.control.clusters.reassigning",
    "Reassignment": "isthmus.control.clusters.reassigning",
    "ReassignmentPlan": "isthmus.control.clusters.reassigning",
    "ReassignmentState": "isthmus.control.clusters.reassigning",
    "RegistryReportJson": "isthmus.control.clusters.registry",
    "KEY_BYTES": "isthmus.control.clusters.sealing",
    "GroupDrill": "isthmus.control.groups.drill",
    "GroupDrillJson": "isthmus.control.groups.drill",
    "GroupPlan": "isthmus.control.groups.plan",
    "GroupsPlan": "isthmus.control.groups.plan",
    "GroupsPlanJson": "isthmus.control.groups.planforms",
    "TranslationJson": "isthmus.control.groups.planforms",
    "Authorship": "isthmus.control.links.authorship",
    "authorship": "isthmus.control.links.authorship",
    "DeclaredLink": "isthmus.control.links.declared",
    "DeclaredLinkJson": "isthmus.control.links.declared",
    "DeclaredTree": "isthmus.control.links.declared",
    "DeclaredTreeJson": "isthmus.control.links.declared",
    "FILTERS": "isthmus.control.links.filtering",
    "Filters": "isthmus.control.links.filtering",
    "FiltersJson": "isthmus.control.links.filtering",
    "patterns": "isthmus.control.links.filtering",
    "Forgotten": "isthmus.control.links.forgetting",
    "acting_as": "isthmus.control.links.host",
    "LiveSettings": "isthmus.control.links.livesettings",
    "LiveSettingsJson": "isthmus.control.links.livesettings",
    "now_ms": "isthmus.control.links.memory",
    "Resumed": "isthmus.control.links.pausing",
    "task_names": "isthmus.control.links.pausing",
    "Promoter": "isthmus.control.links.promotion",
    "Provenance": "isthmus.control.links.provenance",
    "StatusReader": "isthmus.control.links.status",
    "DistributorTarget": "isthmus.control.links.switching",
    "DistributorTargetJson": "isthmus.control.links.switching",
    "trees_named": "isthmus.control.links.trees",
    "MetJson": "isthmus.control.links.waiting",
    "Waiting": "isthmus.control.links.waiting",
    "ClusterPool": "isthmus.control.pool",
    "LinkRecoverer": "isthmus.control.recovery.links",
    "QuarantineFilter": "isthmus.control.recovery.replaying",
    "QuarantinedPartitionJson": "isthmus.control.recovery.replaying",
    "ReplayedPartitionJson": "isthmus.control.recovery.replaying",
    "RunOutcome": "isthmus.control.running.outcome",
    "OnRegistryChange": "isthmus.control.schemas.distribution",
    "RegistrySummary": "isthmus.control.schemas.distribution",
    "SchemasPlan": "isthmus.control.schemas.distribution",
    "SchemasPlanJson": "isthmus.control.schemas.distribution",
    "TakeoverSettings": "isthmus.control.takeover.execution",
    "LinkTakeover": "isthmus.control.takeover.plan",
    "Outcome": "isthmus.control.takeover.plan",
    "PartitionTakeover": "isthmus.control.takeover.plan",
    "TopicTakeover": "isthmus.control.takeover.plan",
    "LinkPlan": "isthmus.control.topics.plan",
    "Plan": "isthmus.control.topics.plan",
    "PlanJson": "isthmus.control.topics.plan",
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
    "CopiedCommitJson",
    "DeclaredLink",
    "DeclaredLinkJson",
    "DeclaredTree",
    "DeclaredTreeJson",
    "DistributorTarget",
    "DistributorTargetJson",
    "Filters",
    "FiltersJson",
    "Forgotten",
    "GroupDrill",
    "GroupDrillJson",
    "GroupPlan",
    "GroupsPlan",
    "GroupsPlanJson",
    "Keeping",
    "LinkPlan",
    "LinkRecoverer",
    "LinkTakeover",
    "LiveSettings",
    "LiveSettingsJson",
    "MetJson",
    "NamespaceReport",
    "NamespaceReportJson",
    "OnRegistryChange",
    "Outcome",
    "PartitionTakeover",
    "Plan",
    "PlanJson",
    "Promoter",
    "Provenance",
    "QuarantineFilter",
    "QuarantinedPartitionJson",
    "Reassignment",
    "ReassignmentPlan",
    "ReassignmentState",
    "RegistryReportJson",
    "RegistrySummary",
    "ReplayedPartitionJson",
    "Resumed",
    "RunOutcome",
    "SchemasPlan",
    "SchemasPlanJson",
    "StatusReader",
    "TakeoverSettings",
    "TopicPlan",
    "TopicTakeover",
    "TopicsReport",
    "TranslationJson",
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
