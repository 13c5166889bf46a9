"""Kafka's error codes, and which of our errors each becomes."""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.model.rights import Resource, Right, grant

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
INVALID_TIMESTAMP: Final = 32
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_PARTITIONS: Final = 37
INVALID_CONFIG: Final = 40
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
TRANSACTION_COORDINATOR_FENCED: Final = 52
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
SECURITY_DISABLED: Final = 54
KAFKA_STORAGE_ERROR: Final = 56
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
OFFSET_NOT_AVAILABLE: Final = 78
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
ELECTION_NOT_NEEDED: Final = 84
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
STALE_MEMBER_EPOCH: Final = 113
TRANSACTION_ABORTABLE: Final = 120
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
"""Answers that ask for fresh metadata: the partition lives elsewhere, or its new leader is not ready yet."""

COORDINATOR_MOVED: Final = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""Answers of a coordinator that moves or has just begun to be one."""


def name_of(code: int) -> str:
    """Kafka's constant for an error code, such as `NOT_LEADER_OR_FOLLOWER`."""
    if code == NONE:
        return "NONE"
    found = kafka_errors.for_code(code)
    return str(getattr(found, "message", None) or found.__name__)


def error_for(
    code: int, what: str, right: Right, *others: Right, cluster: str = "", detail: str | None = None
) -> ClusterError:
    """The error to raise when a broker answered `code` to `what` (a phrase such as "creating topic orders").

    The rights are those the request needs; the code tells which of them is missing.
    """
    name = name_of(code)
    if code in AUTHORIZATION:
        missing = missing_right(code, right, *others)
        return NotAuthorized(
            f"{cluster or 'the cluster'} does not allow {what}: {missing} is missing ({name})",
            cluster=cluster,
            hint=grant(missing, cluster),
        )
    told = f" ({detail})" if detail else ""
    passes = code in LEADER_MOVED | COORDINATOR_MOVED
    return BrokerRefused(
        f"{cluster or 'the cluster'} refused {what}: {name}{told}",
        code=code,
        name=name,
        cluster=cluster,
        hint="It passes when the cluster has settled: try again in some seconds."
        if passes
        else "Look the error up in the broker's log; `isthmus doctor` checks the usual causes.",
    )


def raise_for_code(
    code: int, what: str, right: Right, *others: Right, cluster: str = "", detail: str | None = None
) -> None:
    """Raise the error that belongs to `code`, see `error_for`; do nothing for 0."""
    if code != NONE:
        raise error_for(code, what, right, *others, cluster=cluster, detail=detail)


def missing_right(code: int, *rights: Right) -> Right:
    """That of the rights a request needs which a code of `AUTHORIZATION` is about."""
    return next((right for right in rights if right.resource is _ABOUT.get(code)), rights[0])
