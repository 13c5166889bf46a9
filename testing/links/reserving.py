"""Reserved namespaces: logins that are refused, and the access rules that refuse them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from testing.patience import TERM_S
from testing.records import topics


def as_isthmus(cluster: LocalCluster) -> dict[str, Any]:
    """How librdkafka logs in as the ordinary user, whom rules allow to do anything with any topic."""
    login = cluster.cluster().security
    assert login.password is not None
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.username,
        "sasl.password": login.password.reveal(),
        "ssl.ca.location": login.tls.ca_file,
    }


def admin_of(cluster: LocalCluster) -> Cluster:
    """How a super user reaches it."""
    return replace(topics.as_admin(cluster), alias=cluster.name)


def rules_at(cluster: LocalCluster) -> set[str]:
    """All access rules of a cluster, as its brokers tell them."""
    anything: list[Any] = [ResourceType.ANY, None, ResourcePatternType.ANY, None, None]
    anything += [AclOperation.ANY, AclPermissionType.ANY]
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    found = admin.describe_acls(AclBindingFilter(*anything)).result(TERM_S)
    return {str(each) for each in found}


def written(settings: dict[str, Any], topic: str) -> KafkaError | None:
    """What came of a record that somebody produces."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": int(TERM_S * 1000)})
    producer.produce(topic, b"mine", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(TERM_S) == 0
    return outcomes[0]


def until(attempt: Callable[[], KafkaError | None], *, refused: bool = True) -> int | None:
    """The code an attempt is refused with once it is, or nothing once it is not."""
    deadline = time.monotonic() + TERM_S
    while ((error := attempt()) is not None) is not refused:
        assert time.monotonic() < deadline
    return None if error is None else error.code()
