"""Kafka's error codes, and the error of ours that each becomes."""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.model.kafka.rights import Resource, Right, grant

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
REPLICA_NOT_AVAILABLE: Final = 9
MESSAGE_TOO_LARGE: Final = 10
OFFSET_METADATA_TOO_LARGE: Final = 12
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
INVALID_TOPIC: Final = 17
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
ILLEGAL_GENERATION: Final = 22
INVALID_GROUP_ID: Final = 24
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_COMMIT_OFFSET_SIZE: Final = 28
INVALID_TIMESTAMP: Final = 32
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_CONFIG: Final = 40
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
DUPLICATE_SEQUENCE_NUMBER: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
TRANSACTION_COORDINATOR_FENCED: Final = 52
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
SECURITY_DISABLED: Final = 54
OPERATION_NOT_ATTEMPTED: Final = 55
KAFKA_STORAGE_ERROR: Final = 56
REASSIGNMENT_IN_PROGRESS: Final = 60
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
TOPIC_DELETION_DISABLED: Final = 73
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
OFFSET_NOT_AVAILABLE: Final = 78
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
ELECTION_NOT_NEEDED: Final = 84
NO_REASSIGNMENT_IN_PROGRESS: Final = 85
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
THROTTLING_QUOTA_EXCEEDED: Final = 89
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
STALE_MEMBER_EPOCH: Final = 113
TRANSACTION_ABORTABLE: Final = 120
SHARE_SESSION_NOT_FOUND: Final = 122
REBOOTSTRAP_REQUIRED: Final = 129

_ABOUT: Final = {
    TOPIC_AUTHORIZATION_FAILED: Resource.TOPIC,
    GROUP_AUTHORIZATION_FAILED: Resource.GROUP,
    CLUSTER_AUTHORIZATION_FAILED: Resource.CLUSTER,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Resource.TRANSACTIONAL_ID,
}
AUTHORIZATION: Final = frozenset(_ABOUT)

LEADER_MOVED: Final = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        REPLICA_NOT_AVAILABLE,
        KAFKA_STORAGE_ERROR,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
        OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that require fresh metadata: the leader has moved, or the new one is not ready yet."""

COORDINATOR_MOVED: Final = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""Errors of a coordinator that moves or is loading."""

READ_PASSES: Final = LEADER_MOVED | {REQUEST_TIMED_OUT}
"""Errors of a leader to a read after which it, or the next leader, may answer later."""

APPEND_PASSES: Final = READ_PASSES | {
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    UNKNOWN_TOPIC_ID,
    INCONSISTENT_TOPIC_ID,
}
"""Errors of Produce after which the same producer may send the same batch again."""

RECORD_UNFIT: Final = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP})
"""Errors of Produce that one record is the reason of. They stay until the topic has other settings."""

GROUP_PASSES: Final = COORDINATOR_MOVED | {REQUEST_TIMED_OUT, UNSTABLE_OFFSET_COMMIT, CONCURRENT_TRANSACTIONS}
"""Passing errors of a group's coordinator: nothing was done, and the next attempt may succeed."""

TRANSACTION_PASSES: Final = COORDINATOR_MOVED | {
    # It is not known whether the broker did the request, but repeating it does no harm.
    UNKNOWN_SERVER_ERROR,
    CONCURRENT_TRANSACTIONS,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of a transaction's coordinator after which the request may be repeated."""

PRODUCER_MOVED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING})
"""Errors of a producer whose transactional id has another producer id or epoch by now, or none."""

_IN_DOUBT: Final = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER, UNKNOWN_SERVER_ERROR})
_HAS_MEMBERS: Final = "The group has members: stop them first."
_FENCED: Final = "Another program uses the same transactional id, or a newer process of Isthmus does."
_TOO_FEW: Final = "Bring the brokers of {cluster} back: fewer replicas are in sync than min.insync.replicas asks."
_HINTS: Final = {
    OFFSET_METADATA_TOO_LARGE: "Raise offset.metadata.max.bytes of the brokers of {cluster}, or commit less metadata.",
    INVALID_COMMIT_OFFSET_SIZE: "Commit less metadata, or raise offset.metadata.max.bytes of the brokers of {cluster}.",
    INVALID_TOPIC: "Names have at most 249 letters, digits, '.', '_' and '-', and two that differ only in '.' and '_' "
    "cannot both be there, as their metrics have one name. Give the topic another name at the target "
    "(topics.naming), or exclude it (topics.exclude).",
    INVALID_PARTITIONS: "The brokers of {cluster} do not allow so many partitions, or fewer than there are.",
    INVALID_REPLICATION_FACTOR: (
        "Fewer brokers of {cluster} can take replicas now. Bring them back, or set topics.replication_factor of the "
        "link to the number of brokers that there are."
    ),
    INVALID_REPLICA_ASSIGNMENT: "See that all brokers that are named are in {cluster}, and each once per partition.",
    INVALID_CONFIG: "The brokers of {cluster} do not take one of these values; the message names it. Leave it out by "
    "configs.exclude of the link, or change it at the source.",
    INVALID_REQUEST: (
        "The brokers of {cluster} do not accept the request as it is; the message states the reason. A setting of a "
        "topic can be left out by configs.exclude of the link."
    ),
    POLICY_VIOLATION: "A policy of {cluster} (create.topic.policy.class.name, alter.config.policy.class.name) does not "
    "allow it; the message is the policy's own. Make the policy allow the link's requests, or meet it: "
    "topics.replication_factor sets the replicas, configs.exclude leaves settings out.",
    RECORD_LIST_TOO_LARGE: "Raise max.message.bytes of the topic, or segment.bytes if that is smaller.",
    MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic.",
    INVALID_TIMESTAMP: "Raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic.",
    INVALID_RECORD: "A compacted topic takes no record without a key, and others none whose timestamp is beyond their "
    "message.timestamp settings: compare the configurations of both topics (`isthmus plan` does).",
    UNSUPPORTED_COMPRESSION_TYPE: "The brokers of {cluster} are too old for this codec: upgrade them.",
    UNSUPPORTED_VERSION: "The brokers of {cluster} are too old for this, or a feature level is: see `isthmus cluster "
    "describe`.",
    REASSIGNMENT_IN_PROGRESS: "Partitions of the topic move to other brokers (`isthmus cluster describe`). It passes "
    "when they are there.",
    NO_REASSIGNMENT_IN_PROGRESS: "Nothing moves there any more.",
    TOPIC_ALREADY_EXISTS: "Another client created it: look at it before you run the command again.",
    TOPIC_DELETION_DISABLED: "Set delete.topic.enable=true on the brokers of {cluster}.",
    THROTTLING_QUOTA_EXCEEDED: "A quota of {cluster} (controller_mutation_rate) bounds how many topics and partitions "
    "may be created; it passes. Raise the quota of the link's user if it is to go faster.",
    NON_EMPTY_GROUP: _HAS_MEMBERS,
    GROUP_SUBSCRIBED_TO_TOPIC: _HAS_MEMBERS,
    GROUP_ID_NOT_FOUND: "The group is gone.",
    INVALID_GROUP_ID: "Brokers take no such name for a group.",
    UNKNOWN_MEMBER_ID: _HAS_MEMBERS,
    ILLEGAL_GENERATION: _HAS_MEMBERS,
    REBALANCE_IN_PROGRESS: "The members of the group are being given partitions: try again in some seconds.",
    STALE_MEMBER_EPOCH: _HAS_MEMBERS,
    NOT_ENOUGH_REPLICAS: _TOO_FEW,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: _TOO_FEW,
    SECURITY_DISABLED: "The brokers of {cluster} have no authorizer (authorizer.class.name), so they keep no rules.",
    ELECTION_NOT_NEEDED: "The leader is the one that it is to be.",
    INVALID_TRANSACTION_TIMEOUT: "Raise transaction.max.timeout.ms of the brokers of {cluster}.",
    INVALID_PRODUCER_EPOCH: _FENCED,
    PRODUCER_FENCED: _FENCED,
    UNKNOWN_SERVER_ERROR: "The broker of {cluster} failed at it, and wrote why into its log.",
}


def name_of(code: int) -> str:
    """Kafka's constant for an error code, such as `NOT_LEADER_OR_FOLLOWER`."""
    if code == NONE:
        return "NONE"
    found = kafka_errors.for_code(code)
    return str(getattr(found, "message", None) or found.__name__)


def error_for(
    code: int, what: str, right: Right, *others: Right, cluster: str = "", detail: str | None = None
) -> ClusterError:
    """Build the error for a broker that answered `code` to `what` (a phrase such as "creating topic orders").

    The rights are those the request needs; the code shows which of them is missing.
    """
    name = name_of(code)
    if code in AUTHORIZATION:
        missing = missing_right(code, right, *others)
        return NotAuthorized(
            f"{cluster or 'the cluster'} does not allow {what}: {missing} is missing ({name})",
            cluster=cluster,
            hint=grant(missing, cluster),
        )
    reason = f" ({detail})" if detail else ""
    return BrokerRefused(
        f"{cluster or 'the cluster'} refused {what}: {name}{reason}",
        code=code,
        name=name,
        cluster=cluster,
        hint=_hint(code, name, cluster or "the cluster"),
    )


def _hint(code: int, name: str, cluster: str) -> str:
    """Advice for a refusal that is not about a missing right."""
    if code == NOT_CONTROLLER or code in READ_PASSES | GROUP_PASSES:
        return "It passes when the cluster has settled: try again in some seconds."
    if code in _HINTS:
        return _HINTS[code].format(cluster=cluster)
    return (
        f"{name} is Kafka's own name for the reason: its documentation has all of them (org.apache.kafka.common.errors)"
        f", and the log of the broker of {cluster} that answered may have more. `isthmus doctor` checks usual causes."
    )


def is_in_doubt(error: ClusterError) -> bool:
    """Whether a refused change may have been made all the same: the controller moved, or its answer was lost,
    meanwhile.
    """
    return isinstance(error, BrokerRefused) and error.code in _IN_DOUBT


def raise_for_code(
    code: int, what: str, right: Right, *others: Right, cluster: str = "", detail: str | None = None
) -> None:
    """Raise the error for `code`, see `error_for`; do nothing for 0."""
    if code != NONE:
        raise error_for(code, what, right, *others, cluster=cluster, detail=detail)


def missing_right(code: int, *rights: Right) -> Right:
    """Choose the right that an error code of `AUTHORIZATION` is about."""
    return next((right for right in rights if right.resource is _ABOUT.get(code)), rights[0])
