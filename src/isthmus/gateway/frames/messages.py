"""The messages that pass, and their highest versions. Other messages are not offered to clients. Pure.

A version that was not reviewed could have addresses of brokers, as Fetch does since version 16: clients would bypass
the gateway. A test compares the tables with the message definitions of the newest broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
ALTER_CONFIGS: Final = 33
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
INCREMENTAL_ALTER_CONFIGS: Final = 44
OFFSET_DELETE: Final = 47
DESCRIBE_CLUSTER: Final = 60
CONSUMER_GROUP_HEARTBEAT: Final = 68
DESCRIBE_TOPIC_PARTITIONS: Final = 75
SHARE_GROUP_HEARTBEAT: Final = 76
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
STREAMS_GROUP_HEARTBEAT: Final = 88
ALTER_SHARE_GROUP_OFFSETS: Final = 91
DELETE_SHARE_GROUP_OFFSETS: Final = 92
STREAMS_GROUP_TOPOLOGY: Final = 93


class Passing(NamedTuple):
    """A message that passes: its name in Kafka's definitions, and the range of versions that is offered at most."""

    name: str
    version_max: int
    version_min: int = 0


PASSING: Final[Mapping[int, Passing]] = {
    # The next versions of this one, OffsetCommit and TxnOffsetCommit name topics by ids alone (KIP-516, KIP-848).
    PRODUCE: Passing("Produce", 12),
    # From 12 on a consumer compares epochs with Fetch, from 13 on topics are ids, from 16 on answers hold addresses.
    FETCH: Passing("Fetch", 11),
    LIST_OFFSETS: Passing("ListOffsets", 11),
    METADATA: Passing("Metadata", 13),
    OFFSET_COMMIT: Passing("OffsetCommit", 9),
    OFFSET_FETCH: Passing("OffsetFetch", 10),
    FIND_COORDINATOR: Passing("FindCoordinator", 6),
    JOIN_GROUP: Passing("JoinGroup", 9),
    HEARTBEAT: Passing("Heartbeat", 4),
    LEAVE_GROUP: Passing("LeaveGroup", 5),
    SYNC_GROUP: Passing("SyncGroup", 5),
    15: Passing("DescribeGroups", 6),
    16: Passing("ListGroups", 5),
    # Behind version 0 come tokens without headers: there would be no frames to tell apart.
    SASL_HANDSHAKE: Passing("SaslHandshake", 1, 1),
    API_VERSIONS: Passing("ApiVersions", 5),
    CREATE_TOPICS: Passing("CreateTopics", 7),
    # From 6 on topics may be ids alone.
    DELETE_TOPICS: Passing("DeleteTopics", 5),
    DELETE_RECORDS: Passing("DeleteRecords", 2),
    INIT_PRODUCER_ID: Passing("InitProducerId", 6),
    OFFSET_FOR_LEADER_EPOCH: Passing("OffsetForLeaderEpoch", 4),
    # From 4 on it is for brokers among each other.
    ADD_PARTITIONS_TO_TXN: Passing("AddPartitionsToTxn", 3),
    ADD_OFFSETS_TO_TXN: Passing("AddOffsetsToTxn", 4),
    END_TXN: Passing("EndTxn", 5),
    27: Passing("WriteTxnMarkers", 2),
    TXN_OFFSET_COMMIT: Passing("TxnOffsetCommit", 5),
    29: Passing("DescribeAcls", 3),
    30: Passing("CreateAcls", 3),
    31: Passing("DeleteAcls", 3),
    32: Passing("DescribeConfigs", 4),
    ALTER_CONFIGS: Passing("AlterConfigs", 2),
    34: Passing("AlterReplicaLogDirs", 2),
    35: Passing("DescribeLogDirs", 5),
    SASL_AUTHENTICATE: Passing("SaslAuthenticate", 2),
    CREATE_PARTITIONS: Passing("CreatePartitions", 3),
    38: Passing("CreateDelegationToken", 3),
    39: Passing("RenewDelegationToken", 2),
    40: Passing("ExpireDelegationToken", 2),
    41: Passing("DescribeDelegationToken", 3),
    DELETE_GROUPS: Passing("DeleteGroups", 3),
    43: Passing("ElectLeaders", 2),
    INCREMENTAL_ALTER_CONFIGS: Passing("IncrementalAlterConfigs", 1),
    45: Passing("AlterPartitionReassignments", 1),
    46: Passing("ListPartitionReassignments", 0),
    OFFSET_DELETE: Passing("OffsetDelete", 0),
    48: Passing("DescribeClientQuotas", 1),
    49: Passing("AlterClientQuotas", 1),
    50: Passing("DescribeUserScramCredentials", 0),
    51: Passing("AlterUserScramCredentials", 0),
    # From 2 on answers hold addresses, those of controllers.
    55: Passing("DescribeQuorum", 1),
    57: Passing("UpdateFeatures", 2),
    DESCRIBE_CLUSTER: Passing("DescribeCluster", 2),
    61: Passing("DescribeProducers", 0),
    64: Passing("UnregisterBroker", 0),
    65: Passing("DescribeTransactions", 0),
    66: Passing("ListTransactions", 2),
    CONSUMER_GROUP_HEARTBEAT: Passing("ConsumerGroupHeartbeat", 1),
    69: Passing("ConsumerGroupDescribe", 1),
    71: Passing("GetTelemetrySubscriptions", 0),
    72: Passing("PushTelemetry", 0),
    74: Passing("ListConfigResources", 1),
    DESCRIBE_TOPIC_PARTITIONS: Passing("DescribeTopicPartitions", 0),
    SHARE_GROUP_HEARTBEAT: Passing("ShareGroupHeartbeat", 1),
    77: Passing("ShareGroupDescribe", 1),
    SHARE_FETCH: Passing("ShareFetch", 2),
    SHARE_ACKNOWLEDGE: Passing("ShareAcknowledge", 2),
    81: Passing("RemoveRaftVoter", 0),
    # The addresses in these two are those of the applications, which say so themselves.
    STREAMS_GROUP_HEARTBEAT: Passing("StreamsGroupHeartbeat", 1),
    89: Passing("StreamsGroupDescribe", 1),
    90: Passing("DescribeShareGroupOffsets", 1),
    ALTER_SHARE_GROUP_OFFSETS: Passing("AlterShareGroupOffsets", 0),
    DELETE_SHARE_GROUP_OFFSETS: Passing("DeleteShareGroupOffsets", 0),
    STREAMS_GROUP_TOPOLOGY: Passing("StreamsGroupTopologyDescriptionUpdate", 0),
    94: Passing("UnregisterController", 0),
}

LEFT_OUT: Final = frozenset(
    {
        *(4, 5, 6, 7),  # a controller and its brokers, as long as ZooKeeper was there
        *(52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82),  # controllers and brokers among each other
        *(83, 84, 85, 86, 87),  # brokers and the coordinators of share groups
        80,  # AddRaftVoter holds the address of a controller: ask the brokers themselves
    }
)
"""Messages that were reviewed and do not pass."""

LEADING: Final = frozenset(
    {METADATA, FIND_COORDINATOR, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE, DESCRIBE_CLUSTER}
)
"""Messages that any broker may answer in place of another: those that lead a client to the right broker."""

WAITING: Final = frozenset({FETCH, JOIN_GROUP, SYNC_GROUP, SHARE_FETCH})
"""Messages whose answers brokers may delay: Fetch, JoinGroup, SyncGroup, ShareFetch. They change nothing."""

CONSUMING: Final = frozenset(
    {
        *(FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, OFFSET_FOR_LEADER_EPOCH),
        *(JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT),
        *(SHARE_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE),
    }
)
"""Messages of consumers, which they send again if no answer comes."""

NEVER: Final = 0x7FFF
"""A version that no message has."""
FLEXIBLE_FROM: Final[Mapping[int, int]] = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 6,
    METADATA: 9,
    OFFSET_COMMIT: 8,
    FIND_COORDINATOR: 3,
    JOIN_GROUP: 6,
    HEARTBEAT: 4,
    LEAVE_GROUP: 4,
    SYNC_GROUP: 4,
    API_VERSIONS: 3,
    CREATE_TOPICS: 5,
    DELETE_TOPICS: 4,
    DELETE_RECORDS: 2,
    INIT_PRODUCER_ID: 2,
    OFFSET_FOR_LEADER_EPOCH: 4,
    ADD_PARTITIONS_TO_TXN: 3,
    ADD_OFFSETS_TO_TXN: 3,
    END_TXN: 3,
    TXN_OFFSET_COMMIT: 3,
    ALTER_CONFIGS: 2,
    SASL_AUTHENTICATE: 2,
    CREATE_PARTITIONS: 2,
    DELETE_GROUPS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1,
    OFFSET_DELETE: NEVER,
    DESCRIBE_CLUSTER: 0,
    CONSUMER_GROUP_HEARTBEAT: 0,
    DESCRIBE_TOPIC_PARTITIONS: 0,
    SHARE_GROUP_HEARTBEAT: 0,
    SHARE_FETCH: 0,
    SHARE_ACKNOWLEDGE: 0,
    STREAMS_GROUP_HEARTBEAT: 0,
    ALTER_SHARE_GROUP_OFFSETS: 0,
    DELETE_SHARE_GROUP_OFFSETS: 0,
    STREAMS_GROUP_TOPOLOGY: 0,
}
"""The first flexible version (KIP-482: compact strings and tags) of each message that is read."""


def is_flexible(key: int, version: int) -> bool:
    """Whether this version of a message that is read is flexible: it has compact strings and tags."""
    return version >= FLEXIBLE_FROM[key]
