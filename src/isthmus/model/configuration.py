"""The whole configuration of an operator, as values: the content of the YAML file after parsing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.problem import Problem
from isthmus.model.process.logsettings import LogSettings
from isthmus.model.process.timings import USUAL, Timings
from isthmus.model.schemas.content import SchemaSettings
from isthmus.model.text.wording import which_are
from isthmus.model.trees.tree import TreeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings for Spark. `slots` is the number of task slots to use, `None` being all of them."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    slots: int | None = None
    lease_term_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """The settings for creating the ledger's topics. `None` leaves the replication factor to the broker."""

    replication_factor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where a run serves its metrics, `None` for nowhere; and whether it includes those of every partition.

    An address other than loopback needs `any_interface`.
    """

    listen: str | None = None
    any_interface: bool = False
    partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The clusters, the links between them and the settings.

    Aliases and link names are unique, in the order written. `warnings` are sentences for the operator about settings
    that are allowed but unwise. `declared` are the names of links that only the clusters' ledgers have, not the file,
    `None` if the ledgers were not read, and `declared_trees` those of trees; `left_out` gives by name the reason why
    others cannot be run between these clusters, and `unread` names the clusters whose declarations could not be read.
    `timings` are not for operators.
    """

    clusters: tuple[Cluster, ...]
    links: tuple[Link, ...]
    trees: tuple[TreeSettings, ...] = ()
    schemas: SchemaSettings | None = None
    spark: SparkSettings = SparkSettings()
    ledger: LedgerSettings = LedgerSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = field(default_factory=LogSettings)
    warnings: tuple[str, ...] = ()
    declared: frozenset[str] | None = None
    declared_trees: frozenset[str] = frozenset()
    left_out: Mapping[str, Problem] = field(default_factory=dict)
    unread: Mapping[str, Problem] = field(default_factory=dict)
    timings: Timings = USUAL

    @property
    def written(self) -> Configuration:
        """Return the configuration as the file has it."""
        links, trees = self.declared or frozenset(), self.declared_trees
        return replace(
            self,
            links=tuple(link for link in self.links if link.name not in links and link.tree not in trees),
            trees=tuple(each for each in self.trees if each.tree.name not in trees),
            declared=None,
            declared_trees=frozenset(),
            left_out={},
            unread={},
        )

    def cluster(self, alias: str) -> Cluster:
        """Return the cluster of that alias.

        :raises ConfigError: When there is none.
        """
        by_alias = {cluster.alias: cluster for cluster in self.clusters}
        if alias not in by_alias:
            raise _unknown("cluster", alias, by_alias)
        return by_alias[alias]

    def link(self, name: str) -> Link:
        """Return the link of that name.

        :raises ConfigError: When there is none, or it was declared and cannot be run between these clusters.
        """
        by_name = {link.name: link for link in self.links}
        if name not in by_name:
            if (why := self.left_out.get(name)) is not None:
                raise ConfigError(f"link {name} cannot be run: {why.message}", hint=why.hint)
            raise _unknown("link", name, by_name, unread=self.unread)
        return by_name[name]


def _unknown(what: str, name: str, known: Iterable[str], *, unread: Iterable[str] = ()) -> ConfigError:
    names = list(known)
    nearest = get_close_matches(name, names, n=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else which_are("configured", names)
    if away := ", ".join(unread):
        hint += f" The declarations on {away} are not known, as it does not answer."
    return ConfigError(f"there is no {what} named {name}", hint=hint)
