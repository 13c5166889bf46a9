"""Quotas, passwords and rights change while the mirror works: rows 32 to 34 and 51."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.protocol.admin import AlterClientQuotasRequest

from isthmus.local.folders import write_atomic
from isthmus.local.probe import ask
from soak.faults.catalogue import Told, fault
from soak.faults.finding import some_partition
from soak.scene import TERM_S, Scene
from soak.side import Side

_USER: Final = "isthmus"
_ITERATIONS: Final = 4096


@fault(32, "target network", lasts_s=(10.0, 30.0))
def target_quotas(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The target lets the mirror write, ask and create little."""
    quotas = {
        "producer_byte_rate": chance.uniform(20_000, 300_000),
        "request_percentage": chance.uniform(2.0, 20.0),
        "controller_mutation_rate": 1.0,
    }
    yield from _limited(scene.target, _some(quotas, chance))


@fault(32, "source network", lasts_s=(10.0, 30.0))
def source_quotas(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The source lets the mirror read and ask little."""
    quotas = {"consumer_byte_rate": chance.uniform(20_000, 300_000), "request_percentage": chance.uniform(2.0, 20.0)}
    yield from _limited(scene.source, _some(quotas, chance))


@fault(51, "target network", lasts_s=(10.0, 30.0))
def target_reads_starved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The target lets the mirror read next to nothing, so that its ledger answers empty again and again."""
    yield from _starved(scene.target, chance)


@fault(51, "source network", lasts_s=(10.0, 30.0))
def source_reads_starved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The source lets the mirror read next to nothing, so that its logs answer empty again and again."""
    yield from _starved(scene.source, chance)


@fault(33, "target login", lasts_s=(5.0, 15.0))
def target_password_rotated(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The mirror's password at the target changes, and so does the file it is in; connections break."""
    yield from _rotated(scene.target, chance)


@fault(33, "source login", lasts_s=(5.0, 15.0))
def source_password_rotated(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The mirror's password at the source changes, and so does the file it is in; connections break."""
    yield from _rotated(scene.source, chance)


@fault(34, "target login", lasts_s=(5.0, 20.0))
def target_right_taken(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The mirror may not write to one topic of the target, or not use its transactional ids, for a while."""
    topic, _ = some_partition(scene, chance)
    which = chance.choice(
        (
            (ResourceType.TOPIC, scene.target.names.called(topic), AclOperation.WRITE),
            (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.WRITE),
            (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER),
        )
    )
    with _denied(scene.target, *which):
        yield {"right": f"{which[2].name} on {which[0].name} {which[1]}"}


@fault(34, "source login", lasts_s=(5.0, 20.0))
def source_right_taken(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The mirror may not read one topic of the source for a while."""
    topic, _ = some_partition(scene, chance)
    with _denied(scene.source, ResourceType.TOPIC, topic, AclOperation.READ):
        yield {"right": f"READ on {topic}"}


def _starved(side: Side, chance: random.Random) -> Iterator[Told]:
    """A broker over one of these quotas answers a Fetch at once, without an error and without any partition."""
    name, low, high = chance.choice((("consumer_byte_rate", 500, 5_000), ("request_percentage", 0.2, 1.0)))
    yield from _limited(side, {name: low * (high / low) ** chance.random()})


def _some(quotas: dict[str, float], chance: random.Random) -> dict[str, float]:
    return {name: quotas[name] for name in chance.sample(sorted(quotas), chance.randint(1, len(quotas)))}


def _limited(side: Side, quotas: dict[str, float]) -> Iterator[Told]:
    # Brokers take rates in bytes as whole numbers only.
    quotas = {name: round(value) if name.endswith("_byte_rate") else value for name, value in quotas.items()}
    _alter_quotas(side, quotas, is_removed=False)
    try:
        yield {"side": side.name, **{name: round(value, 1) for name, value in quotas.items()}}
    finally:
        _alter_quotas(side, quotas, is_removed=True)


def _alter_quotas(side: Side, quotas: dict[str, float], *, is_removed: bool) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="user", entity_name=_USER)],
                ops=[entry.OpData(key=name, value=value, remove=is_removed) for name, value in quotas.items()],
            )
        ],
        validate_only=False,
    )
    said: set[str] = set()
    for broker in side.cluster.brokers:
        answer = ask(broker.admin_port, request, cluster=side.name)
        refused = {f"{each.error_code}: {each.error_message}" for each in answer.entries if each.error_code}
        if not refused:
            return
        said |= refused
    raise RuntimeError(f"the {side.name} refused quotas: {', '.join(sorted(said))}")


def _rotated(side: Side, chance: random.Random) -> Iterator[Told]:
    password = secrets.token_urlsafe(24)
    side.secrets.append(password)
    is_file_first = chance.random() < 0.5
    if is_file_first:
        write_atomic(side.password_file, password, mode=0o600)
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    change = UserScramCredentialUpsertion(_USER, mechanism, password.encode())
    for future in side.admin.alter_user_scram_credentials([change]).values():
        future.result(TERM_S)
    if not is_file_first:
        write_atomic(side.password_file, password, mode=0o600)
    for network in side.networks:
        network.reset_all()
    # It stays so: nobody undoes the change of a password.
    yield {"side": side.name, "file first": is_file_first}


@contextmanager
def _denied(side: Side, kind: ResourceType, name: str, operation: AclOperation) -> Iterator[None]:
    rule = (kind, name, ResourcePatternType.LITERAL, f"User:{_USER}", "*", operation, AclPermissionType.DENY)
    for future in side.admin.create_acls([AclBinding(*rule)]).values():
        future.result(TERM_S)
    try:
        yield
    finally:
        for future in side.admin.delete_acls([AclBindingFilter(*rule)]).values():
            future.result(TERM_S)
