"""The client settings of a flow: the properties of its link, and a login that no link can take from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from isthmus.config.sections.clientproperties import EndOfLink, property_problem
from isthmus.interop.clients.clients import ANSWERED, CLIENTS, PASSED
from isthmus.interop.deployment import Flow, Impact, Setting, Settings
from isthmus.interop.gathering import Gathering

_PREFIXES: Final[Mapping[EndOfLink, tuple[str, ...]]] = {
    "source": ("source.consumer.", "consumer.", "source.admin.", "admin.", "source.producer."),
    "target": (
        "producer.override.",
        "target.producer.",
        "producer.",
        "target.admin.",
        "admin.override.",
        "admin.",
        "target.consumer.",
    ),
}
"""By the side that they reach: the prefixes of a client's settings. The first with a value counts."""


def flow_properties(
    flow: Flow, clusters: Mapping[str, Settings], gathering: Gathering
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the properties of a flow's link, and the keys of its settings that are handled. `clusters` are the
    settings of all clusters, by alias.

    :raises ConfigError: A value refers to what cannot be found here.
    """
    properties: dict[str, str] = {}
    treated: set[str] = set()
    ends: dict[EndOfLink, str] = {"source": flow.source, "target": flow.target}
    for side, alias in ends.items():
        settings, cluster = flow.settings, clusters[alias]
        taken: dict[str, Setting] = {}
        for key, name in _find_client_keys(side, settings):
            treated.add(key)
            if name in ANSWERED:
                _tell_login(side, alias, settings[key], cluster.get(name), gathering)
                continue
            known = taken.setdefault(name, settings[key])
            if known.value != settings[key].value:
                why = f"a link has one set of properties for all its clients of a side: {known.written} is taken"
                gathering.tell(Impact.CHANGED, settings[key], why, value=settings[key].value)
        for name, setting in taken.items():
            value = gathering.require_known(setting).strip()
            problem = property_problem(name, value)
            if name.startswith("ssl.") and not _has_tls(cluster, gathering):
                gathering.tell(Impact.UNNEEDED, setting, f"{alias} is reached without TLS")
            elif problem is None:
                properties[f"{side}.{name}"] = value
            else:
                gathering.tell(Impact.LOST, setting, f"it {problem[0]} for Isthmus", "")
    return properties, frozenset(treated)


def _find_client_keys(side: EndOfLink, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield keys about a side, and their client setting, if Isthmus has an answer to it."""
    for prefix in _PREFIXES[side]:
        for key in settings:
            name = key.removeprefix(prefix)
            if name != key and name in PASSED | ANSWERED:
                yield key, name


def _tell_login(
    side: EndOfLink, alias: str, setting: Setting, of_cluster: Setting | None, gathering: Gathering
) -> None:
    if of_cluster is not None and of_cluster.value == setting.value:
        return
    why = f"a link is connected to {alias} as clusters.{alias} says, not as its flow does"
    todo = f"Give it a login of its own: clusters.{alias}.logins, and {side}_login of the link (docs/security.md)."
    gathering.tell(Impact.LOST, setting, why, todo)


def _has_tls(cluster: Settings, gathering: Gathering) -> bool:
    keys = ("security.protocol", *(f"{client}.security.protocol" for client in CLIENTS))
    given = next((cluster[key] for key in keys if key in cluster), None)
    return given is not None and gathering.require_known(given).strip().upper().endswith("SSL")
