"""The properties file of MirrorMaker 2 as a cluster of its own (`connect-mirror-maker.sh mm2.properties`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

import javaproperties

from isthmus.errors import ConfigError
from isthmus.interop.clients.clients import is_client_setting
from isthmus.interop.deployment import Deployment, Flow, Impact, Notice, Setting, ambiguity
from isthmus.interop.equivalents import ALIASES, EQUIVALENTS, equivalent_of, truth
from isthmus.interop.names import split_list

FORM: Final = "mm2.properties"
_ARROW: Final = "->"
_PROVIDERS: Final = "config.providers"
_OF_WORKERS: Final = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "listeners",
)
_HEARTBEATS: Final = "emit.heartbeats.enabled"
_SEPARATOR: Final = "replication.policy.separator"
_NAMED_CHARACTERS_MAX: Final = 40
_COMPARED_MAX: Final = 100
_COMMENT: Final = re.compile(r"(?:^|\s)#")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""The characters that Kafka trims from values (String.trim): other blanks, as at the end of a
password, belong to them.
"""
_START: Final = (
    "It has to be the file that connect-mirror-maker.sh is started with, which begins with lines such as:\n\n"
    "clusters = a, b\na.bootstrap.servers = host-a:9092\nb.bootstrap.servers = host-b:9092\na->b.enabled = true"
)


def read_properties(data: bytes, name: str) -> Deployment:
    """Read a deployment from a properties file called `name`.

    :raises ConfigError: It is none, or contradicts itself; with the line.
    """
    notices: list[Notice] = []
    settings = dict(_settings(data, name, notices))
    if not settings:
        raise ConfigError(f"{name} has no settings", hint=_START)
    if "clusters" not in settings:
        raise ConfigError(f"{name} has no line clusters = ..., so it is no configuration of MirrorMaker 2", hint=_START)
    return _Reading(name, settings, notices).deployment()


def read_settings(data: bytes, name: str) -> dict[str, Setting]:
    """Read the settings of a client in a properties file, as Kafka's own tools use them (`--command-config`).

    :raises ConfigError: It cannot be read as one; with the line.
    """
    return dict(_settings(data, name, []))


def _settings(data: bytes, name: str, notices: list[Notice]) -> Iterator[tuple[str, Setting]]:
    """Yield keys with their values; of a repeated key the last counts, as in Java."""
    line = 1
    seen: dict[str, int] = {}
    # Java reads such files as ISO 8859-1, whatever their encoding was; other characters are escaped.
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    items = javaproperties.parse(text)
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except ValueError as error:
            hint = "Write four hexadecimal digits behind \\u, or \\\\ for a backslash."
            raise ConfigError(
                f"{name}:{line}: this line or one below has a broken \\u escape", line=line, hint=hint
            ) from error
        if isinstance(item, javaproperties.KeyValue):
            key, value = item.key, item.value.strip(_TRIMMED)
            _refuse_spaced_arrow(key, value, name, line)
            if key in seen:
                notices.append(
                    Notice(
                        impact=Impact.CHANGED,
                        key=key,
                        line=line,
                        why=f"it is on line {seen[key]} as well; the last one counts, as in Java",
                        todo="Remove the one that is not meant, and import again if it was the last.",
                    )
                )
            if _COMMENT.search(value) and not _is_secret(key):
                notices.append(
                    Notice(
                        impact=Impact.CHANGED,
                        key=key,
                        line=line,
                        why="a # behind a value begins no comment: it is part of the value, in Java and here",
                        todo="Put the comment on a line of its own, and import again.",
                    )
                )
            seen[key] = line
            yield key, Setting(value, key, line)
        line += len(_LINE_END.findall(item.source))


def _is_secret(key: str) -> bool:
    return key.endswith(("password", "secret", "jaas.config", ".key"))


def _refuse_spaced_arrow(key: str, value: str, name: str, line: int) -> None:
    if value.startswith(_ARROW):
        hint = f"Write {key}->... without spaces: to Java the key ends at the first one."
        raise ConfigError(f"{name}:{line}: {key} -> ... has spaces around the arrow", field=key, line=line, hint=hint)


@dataclass(slots=True)
class _Reading:
    name: str
    settings: Mapping[str, Setting]
    notices: list[Notice]
    shared: dict[str, Setting] = field(default_factory=dict)
    everywhere: dict[str, Setting] = field(default_factory=dict)
    clusters: dict[str, dict[str, Setting]] = field(default_factory=dict)
    flows: dict[tuple[str, str], dict[str, Setting]] = field(default_factory=dict)

    def deployment(self) -> Deployment:
        aliases = self._aliases()
        self.clusters = {alias: {} for alias in aliases}
        self.flows = {(one, other): {} for one in aliases for other in aliases if one != other}
        for key, setting in self.settings.items():
            self._place(key, setting)
        flows = self._find_enabled_flows()
        if not flows:
            raise ConfigError(
                f"{self.name} enables no flow, so nothing would be mirrored",
                hint=f"Add {aliases[0]}->{aliases[-1]}.enabled = true, with the clusters in the order you mean.",
            )
        return Deployment(
            name=self.name,
            form=FORM,
            clusters=self._find_used_clusters(flows),
            flows=flows,
            providers={
                name: self.settings[key].value
                for name in split_list(self._value(_PROVIDERS))
                if (key := f"{_PROVIDERS}.{name}.class") in self.settings
            },
            notices=tuple(self.notices),
        )

    def _value(self, key: str) -> str:
        return self.settings[key].value if key in self.settings else ""

    def _aliases(self) -> tuple[str, ...]:
        setting = self.settings["clusters"]
        aliases = split_list(setting.value)
        if len(set(aliases)) < len(aliases) or len(aliases) < 2:
            message = "names a cluster twice" if len(aliases) > 1 else "has to name two clusters or more"
            raise ConfigError(
                f"{self.name}:{setting.line}: clusters {message}",
                field="clusters",
                line=setting.line,
                hint="Write clusters = a, b with an alias for each cluster.",
            )
        return aliases

    def _place(self, key: str, setting: Setting) -> None:
        if key == "clusters" or key == _PROVIDERS or key.startswith(f"{_PROVIDERS}."):
            return
        if _ARROW in key:
            self._place_in_flow(key, setting)
            return
        if key in EQUIVALENTS or key in ALIASES:
            self.shared[key] = setting
            return
        # The longest alias, as one may begin with another and a dot.
        for alias in sorted(self.clusters, key=len, reverse=True):
            if key.startswith(f"{alias}."):
                self.clusters[alias][key.removeprefix(f"{alias}.")] = setting
                return
        if key.startswith(_OF_WORKERS):
            # MirrorMaker 2 passes this setting to the workers of every flow.
            self.shared[key] = setting
        elif is_client_setting(key):
            self.everywhere[key] = setting
        else:
            self._tell_ignored(key, setting)

    def _place_in_flow(self, key: str, setting: Setting) -> None:
        for (source, target), placed in sorted(self.flows.items(), key=lambda each: -len("".join(each[0]))):
            prefix = f"{source}{_ARROW}{target}."
            if key.startswith(prefix):
                placed[key.removeprefix(prefix)] = setting
                return
        if key.endswith(".enabled") and setting.value.lower() == "true":
            raise ConfigError(
                f"{self.name}:{setting.line}: {key} is true, but clusters does not name both of its ends",
                field=key,
                line=setting.line,
                hint=f"The clusters are {', '.join(self.clusters)}: add the missing one there, with its "
                "bootstrap.servers, or correct the key.",
            )
        self._tell(Impact.UNKNOWN, key, setting, "clusters does not name both ends of this flow, so it has no effect")

    def _tell_ignored(self, key: str, setting: Setting) -> None:
        found = equivalent_of(key)
        if found is None:
            self._tell_unknown(key, setting)
        else:
            self._tell(
                Impact.UNNEEDED,
                key,
                setting,
                "MirrorMaker 2 does not heed it without a cluster or a flow before it",
            )

    def _tell_unknown(self, key: str, setting: Setting) -> None:
        # A lone line may be cut off from a secret above it, such as a line of a private key.
        is_short = len(key) <= _NAMED_CHARACTERS_MAX and len(self.notices) < _COMPARED_MAX
        near = get_close_matches(key, EQUIVALENTS, n=1, cutoff=0.75) if is_short else []
        meant = f"Did you mean {near[0]}? " if near else ""
        shown = key if near or "." in key else f"line {setting.line}"
        self._tell(
            Impact.UNKNOWN,
            shown,
            setting,
            "neither MirrorMaker 2 nor Isthmus knows it",
            f"{meant}Correct it if it is misspelt, and import again; else leave it out.",
        )

    def _tell(self, impact: Impact, key: str, setting: Setting, why: str, todo: str = "") -> None:
        self.notices.append(Notice(impact=impact, key=key, line=setting.line, why=why, todo=todo))

    def _find_enabled_flows(self) -> tuple[Flow, ...]:
        enabled = {ends for ends, own in self.flows.items() if self._is_enabled(own)}
        for source, target in (ends for ends in self.flows if ends not in enabled):
            beats = (target, source) in enabled and self._beats(source, target)
            self._tell_not_enabled(source, target, beats=beats)
        return tuple(
            Flow(source=source, target=target, settings={**self.shared, **own})
            for (source, target), own in self.flows.items()
            if (source, target) in enabled
        )

    def _is_enabled(self, own: Mapping[str, Setting]) -> bool:
        if "enabled" not in own:
            return False
        setting = own["enabled"]
        try:
            return truth(setting.value)
        except ValueError as error:
            raise ConfigError(
                f"{self.name}:{setting.line}: {setting.written} {error}",
                field=setting.written,
                line=setting.line,
                hint="Write true to have the flow mirrored, false not to, and nothing behind it: a # begins a comment "
                "only at the beginning of a line.",
            ) from None

    def _beats(self, source: str, target: str) -> bool:
        """Return whether heartbeats go from one cluster to another though the flow is not enabled, and a link could
        write them (MirrorMakerConfig.clusterPairs).
        """
        emits = {**self.shared, **self.flows[source, target]}.get(_HEARTBEATS)
        flow = Flow(source=source, target=target, settings={**self.shared, **self.flows[source, target]})
        return (emits is None or emits.value.lower() == "true") and not ambiguity(flow, self._separator())

    def _separator(self) -> str:
        return self._value(_SEPARATOR) if _SEPARATOR in self.settings else "."

    def _tell_not_enabled(self, source: str, target: str, *, beats: bool) -> None:
        own = self.flows[source, target]
        written = own.get("enabled")
        impact, todo = Impact.UNNEEDED, ""
        if beats:
            separator = self._separator()
            naming = "mm2" if separator == "." else f'{{mm2: {{separator: "{separator}"}}}}'
            impact = Impact.LOST
            why = (
                f"the flow is not enabled, but MirrorMaker 2 writes heartbeats into {target} by it: without them "
                f"heartbeats at {target}, and {target}{separator}heartbeats at {source}, get no records"
            )
            todo = (
                f"If a program watches that topic, add a link: {{name: {source}-{target}, source: {source}, "
                f"target: {target}, topics: {{naming: {naming}}}, mm2: {{heartbeats: true}}}} (docs/mirrormaker.md)."
            )
        elif written is not None:
            why = "the flow is not enabled: it becomes no link"
        elif own:
            why = "the flow has settings, but is not enabled: it becomes no link"
        else:
            return
        key, line = f"{source}{_ARROW}{target}.enabled", None if written is None else written.line
        self.notices.append(Notice(impact=impact, key=key, line=line, why=why, todo=todo))

    def _find_used_clusters(self, flows: Iterable[Flow]) -> dict[str, Mapping[str, Setting]]:
        """Return the clusters at the ends of flows; add notices for the others."""
        ends = {alias for flow in flows for alias in (flow.source, flow.target)}
        for alias in sorted(self.clusters.keys() - ends):
            setting = self.settings["clusters"]
            why = f"cluster {alias} is at neither end of a flow that is enabled: it is left out"
            self.notices.append(Notice(impact=Impact.UNNEEDED, key="clusters", value=alias, line=setting.line, why=why))
        return {alias: {**self.everywhere, **own} for alias, own in self.clusters.items() if alias in ends}
