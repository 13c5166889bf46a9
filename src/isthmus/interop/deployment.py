"""A MirrorMaker 2 deployment, in whichever form it is written: clusters, flows between them, and their settings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus.model.text.plain import TextOrNull


class MirrorConnector(enum.StrEnum):
    """The three connectors of a flow."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value under the key and on the line where it is written; `repr` keeps it, as it may be a secret."""

    value: str = field(repr=False)
    written: str
    line: int | None = None


Settings = Mapping[str, Setting]
"""By their names in MirrorMaker 2, without a cluster's or a flow's prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Source into target. `connectors` are those that run: in Connect each is deployed separately."""

    source: str
    target: str
    settings: Settings
    connectors: frozenset[MirrorConnector] = frozenset(MirrorConnector)

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.source}->{self.target}"

    @property
    def source_alias(self) -> str:
        """The name of the source in names of topics and in positions of MirrorMaker 2: "" if it is so configured."""
        return self._alias("source", self.source)

    @property
    def target_alias(self) -> str:
        """The name of the target for MirrorMaker 2."""
        return self._alias("target", self.target)

    def _alias(self, side: str, default: str) -> str:
        # The setting takes precedence over the name of the cluster, even if it is empty (MirrorMakerConfig.java).
        setting = self.settings.get(f"{side}.cluster.alias")
        return default if setting is None else setting.value.strip()


def ambiguity(flow: Flow, separator: str) -> str:
    """Return why names with an alias and a separator before them do not show their origin, if they do not."""
    named = {"source": (flow.source_alias, flow.source), "target": (flow.target_alias, flow.target)}
    for side, (alias, cluster) in named.items():
        if alias != cluster:
            return f"{side}.cluster.alias is {alias!r}, not {cluster}" if alias else f"{side}.cluster.alias is empty"
    if not separator:
        return "the separator is empty"
    holds = separator in flow.source or separator in flow.target
    return "an alias holds the separator" if holds else ""


class Impact(enum.StrEnum):
    """The meaning of a notice for the operator of the imported file; the gravest first."""

    NEEDED = "needed"
    """The operator has to act before the file can be run."""
    LOST = "lost"
    """MirrorMaker 2 does it, Isthmus does not."""
    CHANGED = "changed"
    """Isthmus does it in another way."""
    UNKNOWN = "unknown"
    """Neither knows the setting."""
    UNNEEDED = "unneeded"
    """Nothing is lost without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice of the import about a key. `value` is "" if it is a secret, or may be one."""

    impact: Impact
    key: str
    value: TextOrNull = ""
    line: int | None = None
    why: str
    todo: TextOrNull = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The content of a file. `providers` are the classes of config providers by their names in references.

    `secrets` are those of Kubernetes that the file brings along, by `name` and key; others are in its `namespace`.
    """

    name: str
    form: str
    clusters: Mapping[str, Settings]
    flows: tuple[Flow, ...]
    providers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    namespace: str = ""
    notices: tuple[Notice, ...] = ()
