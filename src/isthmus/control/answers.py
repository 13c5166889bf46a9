"""What the fabric takes and gives: values, for whoever asks it."""

from isthmus.control.clusters.administration import AsyncAdministration
from isthmus.control.clusters.namespace import NamespaceReport
from isthmus.control.clusters.namespaces import AsyncNamespaces
from isthmus.control.clusters.reassigning import Reassignment, ReassignmentPlan, ReassignmentState
from isthmus.control.groups.drill import GroupDrill
from isthmus.control.groups.plan import GroupPlan, GroupsPlan
from isthmus.control.groups.sealing import KEY_BYTES
from isthmus.control.links.declared import DeclaredLink, DeclaredTree
from isthmus.control.links.filtering import FILTERS, Filters, patterns
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

__all__ = [
    "FILTERS",
    "KEY_BYTES",
    "AsyncAdministration",
    "AsyncNamespaces",
    "ClusterPool",
    "DeclaredLink",
    "DeclaredTree",
    "DistributorTarget",
    "Filters",
    "GroupDrill",
    "GroupPlan",
    "GroupsPlan",
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
    "now_ms",
    "patterns",
    "trees_named",
]
