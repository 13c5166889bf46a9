"""Credentials that files hold, read again: whoever rotates a password changes the file, and no process is restarted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from isthmus.model.cluster import Cluster, Proxy, SchemaRegistry, Secret, SecretOrigin, Security, ZooKeeper
from isthmus.model.reference import FileReference

_Holder = TypeVar("_Holder", Security, Proxy, SchemaRegistry, ZooKeeper)


def renewed(cluster: Cluster) -> Cluster:
    """The cluster with its credentials as the files hold them now. Where a file is not here, or is just being written,
    they stay as they are: an executor may not have the driver's files.
    """
    security, proxy = _renewed(cluster.security), cluster.proxy and _renewed(cluster.proxy)
    if security is cluster.security and proxy is cluster.proxy:
        return cluster
    return replace(cluster, security=security, proxy=proxy)


def renewed_registry(registry: SchemaRegistry) -> SchemaRegistry:
    """The registry with its login as files hold it now; see `renewed`."""
    return _renewed(registry)


def renewed_zookeeper(zookeeper: ZooKeeper) -> ZooKeeper:
    """The ZooKeeper with its login as files hold it now; see `renewed`."""
    return _renewed(zookeeper)


def _renewed(holder: _Holder) -> _Holder:
    renewed: Any = holder
    for origin in holder.origins:
        if text := _text(origin):
            renewed = _with_text(renewed, origin.field, text)
    return cast("_Holder", renewed)


def _text(origin: SecretOrigin) -> str:
    """What the parts amount to now, "" when one of them cannot be read."""
    try:
        return "".join(part.reveal() if isinstance(part, Secret) else _value(part) for part in origin.parts)
    except (OSError, ValueError, KeyError):
        return ""


def _value(reference: FileReference) -> str:
    file = Path(reference.file)
    if not file.is_file():
        # A pipe was emptied when it was read first, and would be waited for.
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
