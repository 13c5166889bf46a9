"""Options as users of Spark write them: found whatever their case, checked, and the cluster that they name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.spark.logs import require_cluster

CLUSTER_OPTIONS: Final = ("config", "cluster")
"""The options that name a cluster: the configuration file, and the alias in it."""
KAFKA_PREFIX: Final = "kafka."
"""Spark's own source and sink pass options that begin with it to Kafka's clients."""
_FLAGS: Final = {"true": True, "false": False}


class GivenOptions:
    """The options of one source or sink. Spark ignores the case of their names, and so does this."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option without blanks around it."""
        return self._given.get(name.lower(), default).strip()

    def flag(self, name: str, default: bool) -> bool:
        """Return whether an option is true.

        :raises ConfigError: It is neither true nor false.
        """
        value = self.text(name, str(default)).lower()
        if value not in _FLAGS:
            raise refused(name, f"{value!r} is neither true nor false")
        return _FLAGS[value]

    def number(self, name: str) -> int | None:
        """Return a whole number above 0, `None` if the option is not given.

        :raises ConfigError: It is no such number.
        """
        value = self.text(name)
        if name not in self:
            return None
        if not value.isdecimal() or int(value) < 1:
            raise refused(name, f"{value!r} is no whole number above 0")
        return int(value)

    def document(self, name: str) -> Any:
        """Return the value of an option that is written in JSON.

        :raises ConfigError: It is no JSON.
        """
        try:
            return json.loads(self.text(name))
        except ValueError as error:
            raise refused(name, f"it is no JSON: {error}") from error

    def refuse_others(self, known: Collection[str], unsupported: Mapping[str, str]) -> None:
        """Refuse every option that is not `known`; `unsupported` are those of Spark's own source and sink that have no
        meaning here, each with what to do instead.

        :raises ConfigError: There is such an option.
        """
        meant = {name.lower(): name for name in known}
        hints = {name.lower(): hint for name, hint in unsupported.items()}
        for name in sorted(self._given.keys() - meant.keys()):
            if name in hints:
                raise refused(name, "it has no meaning here", hints[name])
            if name.startswith(KAFKA_PREFIX):
                kept = ", ".join(each for each in known if each.startswith(KAFKA_PREFIX))
                raise refused(
                    name,
                    "connections are not set by options",
                    "Set it for the cluster in the file that the option config names"
                    + (f"; only {kept} is an option." if kept else "."),
                )
            near = get_close_matches(name, meant, n=1)
            hint = f"Did you mean {meant[near[0]]}?" if near else f"There are: {', '.join(sorted(known))}."
            raise refused(name, "there is no such option", hint)


def refused(name: str, why: str, hint: str = "") -> ConfigError:
    """Build the error for an option of the data source that cannot be used."""
    return ConfigError(
        f"option {name} of the data source: {why}", field=name, hint=hint or "docs/spark.md has every option."
    )


def find_cluster(options: GivenOptions, registered: Mapping[str, Cluster]) -> Cluster:
    """Return the cluster that the options name: that of the file `config` if it is given, else a registered one.

    The file is read here, where the query is planned, so call it there: executors need not have the file. A relative
    path begins where the driver was started.

    :raises ConfigError: There is no such cluster, or the file cannot be used.
    """
    alias = options.text("cluster")
    if not alias:
        raise refused("cluster", "it is missing", "Name a cluster by its alias in the configuration file.")
    if "config" in options:
        # Loaded only here: executors import this module too, and shall not load what reads files.
        from isthmus import config

        return config.load(options.text("config")).cluster(alias)
    if not registered:
        raise refused(
            "config",
            "it is missing, and no cluster is registered",
            'Set it to the path of an isthmus.yaml, or call isthmus.spark.register(spark, "isthmus.yaml") first.',
        )
    return require_cluster(registered, alias)
