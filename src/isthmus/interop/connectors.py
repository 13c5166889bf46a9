"""The connectors of MirrorMaker 2 in Kafka Connect's form: JSON, one or several, with or without their names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.clients.clients import CLIENTS, PASSED
from isthmus.interop.deployment import Deployment, Flow, Impact, MirrorConnector, Notice, Setting, Settings
from isthmus.interop.equivalents import PATH_OF_CLASSES
from isthmus.interop.transforms.steps import TRANSFORMS, is_of_chain

FORM: Final = "Kafka Connect JSON"
_ORDER: Final = tuple(MirrorConnector)
_SIDES: Final = ("source", "target")
_START: Final = (
    "It has to hold the connectors as Kafka Connect takes or shows them: "
    '{"name": "...", "config": {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", ...}}, '
    "one or a list of them."
)


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector: its name, its class and its configuration."""

    name: str
    kind: MirrorConnector
    settings: Settings
    ends: tuple[str, str] | None = None
    """The names of the clusters, if the form has them beside the settings."""

    def cluster(self, side: str) -> str:
        """Return the name of the cluster at a side: its alias. Without an alias the side is the name, as in MirrorMaker
        2, and an empty alias is taken as it stands.
        """
        if self.ends is not None:
            return self.ends[_SIDES.index(side)]
        setting = self.settings.get(f"{side}.cluster.alias")
        return side if setting is None or not setting.value.strip() else setting.value


def read_connectors(text: str, name: str) -> Deployment:
    """Read a deployment from connectors in JSON.

    :raises ConfigError: It is no JSON, holds no connector of MirrorMaker 2, or they contradict one another.
    """
    notices: list[Notice] = []
    found = [
        connector
        for number, each in enumerate(_objects(_parse_json(text, name, notices), name), start=1)
        if (connector := _connector(each, number, name, notices)) is not None
    ]
    if not found:
        raise ConfigError(f"{name} holds no connector of MirrorMaker 2", hint=_START)
    return deployment_of(found, name=name, form=FORM, notices=notices)


def deployment_of(connectors: list[Connector], *, name: str, form: str, notices: list[Notice]) -> Deployment:
    """Combine connectors: those of one pair of clusters are a flow.

    :raises ConfigError: Two give a cluster different addresses, or none of them copies topics.
    """
    merging = _Merging(name, notices)
    for connector in sorted(connectors, key=lambda each: _ORDER.index(each.kind)):
        merging.add(connector)
    return Deployment(
        name=name, form=form, clusters=merging.clusters, flows=tuple(merging.flows()), notices=tuple(notices)
    )


@dataclass(slots=True)
class _Merging:
    name: str
    notices: list[Notice]
    clusters: dict[str, dict[str, Setting]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], dict[str, Setting]] = field(default_factory=dict)
    kinds: dict[tuple[str, str], set[MirrorConnector]] = field(default_factory=dict)

    def add(self, connector: Connector) -> None:
        pair = connector.cluster("source"), connector.cluster("target")
        if pair[0] == pair[1]:
            raise ConfigError(
                f"{self.name}: connector {connector.name} has {pair[0]} for its source and its target",
                field="source.cluster.alias",
                hint="Give source.cluster.alias and target.cluster.alias different values.",
            )
        self.kinds.setdefault(pair, set()).add(connector.kind)
        placed = self.pairs.setdefault(pair, {})
        for key, setting in connector.settings.items():
            if is_of_chain(key) and connector.kind is not MirrorConnector.SOURCE:
                self._tell_chain(connector, key, setting)
                continue
            side, _, rest = key.partition(".")
            client = rest.partition(".")[0]
            if side in _SIDES and rest.startswith("cluster.") and rest != "cluster.alias":
                self._in_cluster(pair[_SIDES.index(side)], rest.removeprefix("cluster."), setting)
            elif side in _SIDES and client in CLIENTS and rest.partition(".")[2] not in PASSED:
                self._in_cluster(pair[_SIDES.index(side)], rest, setting)
            else:
                self._in_flow(placed, key, setting)

    def _in_cluster(self, alias: str, key: str, setting: Setting) -> None:
        known = self.clusters.setdefault(alias, {}).setdefault(key, setting)
        if known.value == setting.value:
            return
        if key == "bootstrap.servers":
            raise ConfigError(
                f"{self.name}: {known.written} and {setting.written} give cluster {alias} different addresses",
                field=setting.written,
                hint="Give clusters that differ different aliases, or correct the addresses.",
            )
        self._tell_difference(known, setting)

    def _in_flow(self, placed: dict[str, Setting], key: str, setting: Setting) -> None:
        known = placed.setdefault(key, setting)
        if known.value != setting.value and key not in ("name", "connector.class", "tasks.max"):
            self._tell_difference(known, setting)

    def _tell_chain(self, connector: Connector, key: str, setting: Setting) -> None:
        if key == TRANSFORMS:
            why = f"it changes what {connector.kind} writes, which Isthmus writes as MirrorMaker 2 does without it"
            todo = "If programs read that, have them read it as it is."
            self.notices.append(Notice(impact=Impact.LOST, key=setting.written, why=why, todo=todo))

    def _tell_difference(self, known: Setting, setting: Setting) -> None:
        why = f"it has another value than {known.written}, which is taken"
        self.notices.append(Notice(impact=Impact.CHANGED, key=setting.written, why=why, todo="Have a look at both."))

    def flows(self) -> Iterator[Flow]:
        for pair, settings in self.pairs.items():
            kinds = self.kinds[pair]
            if MirrorConnector.SOURCE in kinds:
                yield Flow(source=pair[0], target=pair[1], settings=settings, connectors=frozenset(kinds))
            else:
                present = ", ".join(sorted(kinds))
                why = f"{pair[0]}->{pair[1]} has only {present}: without a MirrorSourceConnector nothing is copied"
                todo = "Import it together with the MirrorSourceConnector."
                self.notices.append(Notice(impact=Impact.CHANGED, key="connector.class", why=why, todo=todo))
        if not any(MirrorConnector.SOURCE in kinds for kinds in self.kinds.values()):
            raise ConfigError(
                f"{self.name} has no MirrorSourceConnector: it can be run, and copies nothing",
                hint="If it is meant to copy, import it with its MirrorSourceConnector: in Strimzi's resource, "
                "sourceConnector: {} below the mirror.",
            )


def _parse_json(text: str, name: str, notices: list[Notice]) -> object:
    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        held: dict[str, object] = {}
        for key, value in pairs:
            if key in held:
                why = "it is written twice; the last one counts, as in Java"
                notices.append(
                    Notice(impact=Impact.CHANGED, key=key, why=why, todo="Remove the one that is not meant.")
                )
            held[key] = value
        return held

    try:
        return json.loads(text, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        message = f"{name}:{error.lineno}: this is not JSON: {error.msg}"
        raise ConfigError(message, line=error.lineno, hint="Correct it there, or export the connector again.") from None
    except (RecursionError, ValueError):
        message = f"{name} is no JSON that can be read: it is nested too deeply, or has too long a number"
        raise ConfigError(message, hint=_START) from None


def _objects(root: object, name: str) -> list[Mapping[str, object]]:
    """Return the possible connectors: one, a list, or the answer of Connect's `GET /connectors?expand=info`."""
    items = root if isinstance(root, list) else [root]
    if isinstance(root, dict) and root and all(_info(value) is not None for value in root.values()):
        items = [_info(value) for value in root.values()]
    if not all(isinstance(item, dict) for item in items):
        raise ConfigError(f"{name} holds something else than connectors", hint=_START)
    return [item for item in items if isinstance(item, dict)]


def _info(value: object) -> object | None:
    return value.get("info") if isinstance(value, dict) else None


def _connector(given: Mapping[str, object], number: int, name: str, notices: list[Notice]) -> Connector | None:
    config = given.get("config", given)
    if not isinstance(config, dict):
        raise ConfigError(f"{name}: config of connector {number} is no object", field="config", hint=_START)
    title = given.get("name") or config.get("name")
    title = title if isinstance(title, str) else f"connector {number}"
    settings = {
        key: Setting(_text(value, key, title, name), f"{title}: {key}")
        for key, value in config.items()
        if value is not None
    }
    kind = settings.get("connector.class", Setting("", "")).value
    short = kind.removeprefix(PATH_OF_CLASSES)
    # Connect accepts a class by its bare name as well, with or without the word at its end.
    short = short if short.endswith("Connector") or not short else f"{short}Connector"
    if short in _ORDER:
        return Connector(title, MirrorConnector(short), settings)
    why = f"{title} is no connector of MirrorMaker 2: it is left out"
    notices.append(Notice(impact=Impact.UNNEEDED, key=f"{title}: connector.class", why=why))
    return None


def _text(value: object, key: str, title: str, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(
        f"{name}: {key} of {title} is a list or an object",
        field=key,
        hint="Kafka Connect takes texts: write a list as one text with commas.",
    )
