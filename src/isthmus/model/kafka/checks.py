"""The checks of `isthmus doctor` and `isthmus cluster`: a code for each check, its meaning, and the general remedy.

docs/errors.md is made of this: `make docs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `found` is the meaning of its finding, `remedy` the general remedy."""

    name: str
    found: str
    remedy: str

    @property
    def code(self) -> str:
        """The permanent name for programs and people."""
        return "ISTH-CHECK-" + self.name.upper().replace(" ", "-")


_LEADERS: Final = (
    "Wait for the brokers to come back, or see `isthmus cluster describe CLUSTER` for those that are away."
)

_ALL: Final = (
    # This host
    Check("spark", "There is no Spark that runs links and verification.", "See ISTH-SPARK."),
    Check("java", "There is no Java that runs Spark.", "See ISTH-JAVA."),
    Check("configuration", "The configuration file states something that may not be meant.", "Correct the file."),
    # Clusters
    Check(
        "identity",
        "Two aliases of the file lead to one cluster.",
        "Correct `bootstrap_servers` of one of them: a link goes from one cluster into another.",
    ),
    Check("reachability", "A cluster cannot be reached, or does not let us in.", "See the message; networks.md helps."),
    Check("broker", "One broker of a cluster cannot be reached from here.", "Open the way to it: networks.md."),
    Check("network", "Brokers are reached in another way than they advertise.", "See networks.md."),
    Check("security", "Records and logins travel unencrypted.", "Use SSL or SASL_SSL."),
    Check(
        "certificates",
        "The certificates of the file cannot be used.",
        "Name PEM files that hold valid certificates and keys.",
    ),
    Check("clock", "A clock is far from ours, or cannot be read.", "Let all hosts keep their time by NTP."),
    Check("cluster id", "Brokers answer with different cluster ids.", "Correct `bootstrap_servers`."),
    Check("brokers", "Brokers are away, fenced, or too few for the replicas that topics have.", _LEADERS),
    Check("quorum", "The controllers of a cluster have no majority, or one of them is behind.", _LEADERS),
    Check("zookeeper", "ZooKeeper and the brokers do not report the same of a cluster.", "See clusters.md."),
    Check("offline", "Partitions have no leader: clients cannot read or write them.", _LEADERS),
    Check("under-min-isr", "Fewer replicas are in sync than producers with acks=all need.", _LEADERS),
    Check("under-replicated", "Not all replicas are in sync.", _LEADERS),
    Check(
        "fewer-replicas-than-min-isr",
        "`min.insync.replicas` asks for more replicas than there are: producers cannot write with acks=all.",
        "Lower it, or add replicas with `isthmus cluster reassign`.",
    ),
    Check(
        "leader-not-preferred",
        "Partitions are led by another replica than their first one.",
        "`isthmus cluster elect-leaders CLUSTER` makes the first replicas leaders.",
    ),
    Check(
        "leader skew",
        "A broker leads far more partitions than others.",
        "`isthmus cluster elect-leaders CLUSTER`, or `isthmus cluster reassign`.",
    ),
    Check(
        "hanging transaction",
        "A transaction is open that no coordinator knows: records behind it are not copied, nor read at "
        "read_committed.",
        "End it with the `kafka-transactions.sh abort` command in the hint.",
    ),
    Check(
        "open transaction",
        "A transaction has been open for long: records behind it are not copied meanwhile.",
        "End its producer, or wait for its timeout.",
    ),
    Check(
        "offsets topic", "Positions of consumer groups may be lost with one broker.", "Give the topic more replicas."
    ),
    Check("one-replica", "Partitions have one replica.", "Add replicas with `isthmus cluster reassign --replicas 3`."),
    Check("min-isr-one", "A record may be acknowledged by one broker alone.", "Raise `min.insync.replicas`."),
    Check(
        "no-margin", "With one broker away producers cannot write.", "Add a replica, or lower `min.insync.replicas`."
    ),
    # Links
    Check("clusters", "A link cannot be planned as its clusters are.", "See the message."),
    Check(
        "topics", "The topics of a link cannot be looked at.", "See the message: it has a code of its own in the log."
    ),
    Check(
        "patterns", "A pattern of the link matches nothing.", "Correct it, or wait for a topic or group that matches."
    ),
    Check("preflight", "A topic or a partition cannot be mirrored as it is, or needs attention.", "See its hint."),
    Check(
        "divergence",
        "The target's log is not, or is no longer, a copy of the source's.",
        "`isthmus link recover LINK --dry-run` reports where both part: recovery.md.",
    ),
    Check(
        "retention", "The source keeps records for a short time.", "Raise `retention.ms`, or keep standstills short."
    ),
    Check(
        "distance", "The source is far from here, and the target near.", "Run the link near its source: operations.md."
    ),
    Check("rights", "An access rule that the link needs is missing.", "`isthmus acls generate` prints all of them."),
    Check("access rules", "Access rules cannot be looked at or made.", "Grant the rights that are named: access.md."),
    Check(
        "passwords",
        "Users of attached principals log in by a password at the source, and have none at the target.",
        "Brokers show no passwords: set them at the target.",
    ),
    Check(
        "quotas",
        "Client quotas of brokers bound a link, or cannot be looked at.",
        "Raise quotas that are not intended: `isthmus_throttle_seconds_total` reports the time that they cost.",
    ),
    Check("producer id", "The target gives out no producer id.", "Grant IDEMPOTENT_WRITE, or WRITE on the topics."),
    Check(
        "ledger",
        "The ledger's transactional id cannot be used, or its topic does not keep its records.",
        "Grant WRITE on the id (`isthmus acls generate`), or give the topic the configuration that the hint names.",
    ),
    Check("groups", "Consumer groups cannot be carried as configured.", "See its hint: groups.md."),
    Check(
        "recommendation",
        "The link would be safer or faster otherwise.",
        "Optional: decide whether to follow the advice.",
    ),
)

CHECKS: Final[Mapping[str, Check]] = {check.name: check for check in _ALL}
"""All checks, by name."""
