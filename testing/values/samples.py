"""Configurations of MirrorMaker 2 in the shapes people have them, and a machine that has only what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus import config
from isthmus.interop.deployment import Deployment, Impact, Notice
from isthmus.interop.drafting import Draft, draft_of
from isthmus.interop.links import OffsetsChoice
from isthmus.interop.reading import read_deployment
from isthmus.model.configuration import Configuration

# In the shape of the file that Kafka ships as config/connect-mirror-maker.properties.
SHIPPED = """\
# specify any number of cluster aliases
clusters = A, B

# connection information for each cluster
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092

# enable and configure individual replication flows
A->B.enabled = true
A->B.topics = .*

B->A.enabled = true
B->A.topics = .*

replication.factor=1

checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1

offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1

# customize as needed
# replication.policy.separator = _
# sync.topic.acls.enabled = false
# emit.heartbeats.interval.seconds = 5
"""

CONNECTORS = """\
[
  {
    "name": "east-west-source",
    "config": {
      "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
      "source.cluster.alias": "east",
      "target.cluster.alias": "west",
      "source.cluster.bootstrap.servers": "east-1:9092,east-2:9092",
      "source.cluster.security.protocol": "SASL_SSL",
      "source.cluster.sasl.mechanism": "SCRAM-SHA-512",
      "source.cluster.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required \
username=\\"mirror\\" password=\\"${file:/opt/secrets/mm2.properties:east}\\";",
      "target.cluster.bootstrap.servers": "west-1:9092",
      "topics": "orders,audit-[0-9]+",
      "tasks.max": 4,
      "replication.factor": "3",
      "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
      "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
    }
  },
  {
    "name": "east-west-checkpoint",
    "config": {
      "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
      "source.cluster.alias": "east",
      "target.cluster.alias": "west",
      "source.cluster.bootstrap.servers": "east-1:9092,east-2:9092",
      "target.cluster.bootstrap.servers": "west-1:9092",
      "groups": "billing, shop-.*",
      "sync.group.offsets.enabled": true
    }
  },
  {
    "name": "east-west-heartbeat",
    "config": {
      "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
      "source.cluster.alias": "east",
      "target.cluster.alias": "west",
      "source.cluster.bootstrap.servers": "east-1:9092,east-2:9092",
      "target.cluster.bootstrap.servers": "west-1:9092"
    }
  }
]
"""

# In the shape of Strimzi's example with TLS.
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: my-mirror-maker-2
spec:
  version: 4.0.0
  replicas: 1
  connectCluster: "cluster-b" # Must be the target cluster
  clusters:
  - alias: "cluster-a" # Source cluster
    bootstrapServers: cluster-a-kafka-bootstrap:9093
    tls:
      trustedCertificates:
        - secretName: cluster-a-cluster-ca-cert
          pattern: "*.crt"
    authentication:
      type: scram-sha-512
      username: mirror
      passwordSecret:
        secretName: mirror-user
        password: password
  - alias: "cluster-b" # Target cluster
    bootstrapServers: cluster-b-kafka-bootstrap:9093
    tls:
      trustedCertificates:
        - secretName: cluster-b-cluster-ca-cert
          certificate: ca.crt
    authentication:
      type: tls
      certificateAndKey:
        secretName: mirror-maker
        certificate: user.crt
        key: user.key
    config:
      # -1 means it will use the default replication factor configured in the broker
      config.storage.replication.factor: -1
      offset.storage.replication.factor: -1
      status.storage.replication.factor: -1
  mirrors:
  - sourceCluster: "cluster-a"
    targetCluster: "cluster-b"
    sourceConnector:
      tasksMax: 1
      autoRestart: {enabled: true}
      config:
        replication.factor: -1
        offset-syncs.topic.replication.factor: -1
        sync.topic.acls.enabled: "false"
        refresh.topics.interval.seconds: 60
    checkpointConnector:
      tasksMax: 1
      config:
        checkpoints.topic.replication.factor: -1
        sync.group.offsets.enabled: "true"
    topicsPattern: "orders|flights"
    groupsPattern: ".*"
"""

# The version of the resource in which clusters stand where they are used.
TARGETED = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  target:
    alias: b
    bootstrapServers: b:1
    groupId: mirror
    configStorageTopic: mm2-configs
  mirrors:
  - source: {alias: a, bootstrapServers: "a:1"}
    sourceConnector: {}
"""


@dataclass(slots=True)
class Bench:
    """A machine with these files and variables alone."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def locate(self, path: str) -> str:
        return path if path.startswith("/") else f"/etc/mm2/{path}"

    def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    def variable(self, name: str) -> str | None:
        return self.variables.get(name)


def pair(*lines: str) -> str:
    """A properties file of one flow a->b, with these lines as well."""
    start = ("clusters = a, b", "a.bootstrap.servers = a:1", "b.bootstrap.servers = b:1", "a->b.enabled = true")
    return "\n".join((*start, *lines)) + "\n"


def read(text: str, name: str = "mm2.properties") -> Deployment:
    """What a text says."""
    return read_deployment(text.encode(), name)


def imported(
    text: str, bench: Bench | None = None, offsets: OffsetsChoice = OffsetsChoice.AUTO, name: str = "mm2.properties"
) -> Draft:
    """What becomes of a text."""
    return draft_of(read(text, name), bench or Bench(), folder="isthmus.secrets", offsets=offsets)


def configured(draft: Draft) -> Configuration:
    """What the draft configures, with something in the place of every secret."""
    text = draft.text
    for each in draft.companions:
        text = text.replace(f"${{file:{each.name}}}", "some secret")
    return config.parse(text)


def about(draft: Draft, key: str) -> Notice:
    """The only notice about a key."""
    (found,) = [notice for notice in draft.notices if notice.key == key]
    return found


def keys(draft: Draft, impact: Impact) -> list[str]:
    """The keys that notices of an impact are about."""
    return [notice.key for notice in draft.notices if notice.impact is impact]
