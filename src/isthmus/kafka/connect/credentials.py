"""Reads credentials from their files again, so that a password can be rotated without a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from isthmus.model.cluster import Cluster, Proxy, SchemaRegistry, Secret, SecretOrigin, Security, ZooKeeper
from isthmus.model.text.reference import FileReference

_Holder = TypeVar("_Holder", Security, Proxy, SchemaRegistry, ZooKeeper)


def renew_credentials(cluster: Cluster) -> Cluster:
    """Return the cluster with the credentials that the files hold now. If a file is missing, or being written, the
    former ones stay: an executor may not have the driver's files.
    """
    security, proxy = _renew(cluster.security), cluster.proxy and _renew(cluster.proxy)
    registry = cluster.schema_registry and _renew(cluster.schema_registry)
    if (security, proxy, registry) == (cluster.security, cluster.proxy, cluster.schema_registry):
        return cluster
    return replace(cluster, security=security, proxy=proxy, schema_registry=registry)


def renewed_registry(registry: SchemaRegistry) -> SchemaRegistry:
    """Return the registry with the login that the files hold now; see `renew_credentials`."""
    return _renew(registry)


def renewed_zookeeper(zookeeper: ZooKeeper) -> ZooKeeper:
    """Return the ZooKeeper with the login that the files hold now; see `renew_credentials`."""
    return _renew(zookeeper)


def _renew(holder: _Holder) -> _Holder:
    renewed: Any = holder
    for origin in holder.origins:
        if text := _text(origin):
            renewed = _with_text(renewed, origin.field, text)
    return cast("_Holder", renewed)


def _text(origin: SecretOrigin) -> str:
    """The present text of the secret, "" if a part cannot be read."""
    try:
        return "".join(part.reveal() if isinstance(part, Secret) else _value(part) for part in origin.parts)
    except (OSError, ValueError, KeyError):
        return ""


def _value(reference: FileReference) -> str:
    file = Path(reference.file)
    if not file.is_file():
        # A pipe was emptied by the first read: reading it again would block.
        raise FileNotFoundError(file)
    value = reference.value_in(file.read_text(encoding="utf-8"))
    if not value:
        raise ValueError("emptied, to be written")
    return value


def _with_text(holder: Any, field: tuple[str, ...], text: str) -> Any:
    name, *rest = field
    held = getattr(holder, name)
    if rest:
        return replace(holder, **{name: _with_text(held, tuple(rest), text)})
    return replace(holder, **{name: Secret(text) if isinstance(held, Secret) else text})
