"""The parts that run on Spark: leases, verification, the data source. Importing this loads no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from isthmus import BackgroundRun
    from isthmus.model.cluster import Cluster
    from isthmus.model.configuration import Configuration
    from isthmus.model.links.outcome import RunOutcome, Until


def run(
    spark: SparkSession,
    config: str | Path | Configuration,
    *,
    until: Until | None = None,
    link: str | None = None,
    take_over: bool = False,
    standby: bool = False,
) -> RunOutcome:
    """Mirror what a configuration says inside a Spark application that is there already.

    The session is left running. With `until="caught-up"` the call returns when the sources have nothing more that was
    not copied ("committed": that is in no open transaction), else on SIGINT or SIGTERM. What goes wrong is in the
    outcome, link by link. A link that another controller runs is left to it, unless `take_over`: then that one ends.
    With `standby` its end is waited for.

    :param config: The YAML file, whose links and those declared on its clusters are run, or the configuration itself.
    :raises ConfigError: The file cannot be used, or there is no link of that name.
    :raises PlanRefused: The session would run tasks twice (`spark.speculation`).
    """
    # The links are run by control, which stands above Spark. Executors import this package too and shall not load it.
    fabric: Any = import_module("isthmus.fabric.fabric").open_fabric(config, spark=spark)
    outcome: RunOutcome = fabric.run(until=until, link=link, take_over=take_over, standby=standby)
    return outcome


def register(spark: SparkSession, clusters: str | Path | Configuration | Iterable[Cluster]) -> None:
    """Make clusters known to the data source `isthmus` in this session, each under its alias.

    Then its option `cluster` is enough, and executors and other users of the session need no file.

    :param clusters: The YAML file, the configuration, or the clusters themselves.
    :raises ConfigError: The file cannot be used.
    :raises SparkMissing: This Spark has no data sources in Python.
    """
    from pathlib import Path

    from isthmus.model.configuration import Configuration

    if isinstance(clusters, str | Path):
        clusters = import_module("isthmus.config").load(clusters)
    known = clusters.clusters if isinstance(clusters, Configuration) else clusters
    # Executors import this package too, and shall not load the data source with it.
    import_module("isthmus.spark.datasource").register(spark, known)


def start(
    spark: SparkSession,
    config: str | Path | Configuration,
    *,
    until: Until | None = None,
    link: str | None = None,
    take_over: bool = False,
    standby: bool = False,
) -> BackgroundRun:
    """Begin what `run` does in the background, and return a handle as soon as the configuration is read: for notebooks,
    and programs that do other things as well.

        with isthmus.spark.start(spark, "isthmus.yaml") as mirror:
            mirror.status().to_spark(spark).where("lag_records > 1000").show()

    The handle ends the run with `stop()`, in good order. The session is left running, and serves several runs at once,
    which share its task slots; stop them before the session. No signal is handled.

    :param config: The YAML file, whose links and those declared on its clusters are run, or the configuration itself.
    :raises ConfigError: The file cannot be used, or there is no link of that name.
    :raises PlanRefused: The session would run tasks twice (`spark.speculation`).
    :raises HostError: The session was stopped.
    :raises Occupied: A run that was started in this process has one of the links. What another process runs shows a
        little later, in the outcome.
    """
    begun: BackgroundRun = import_module("isthmus.fabric.background").start(
        spark, config, until=until, link=link, take_over=take_over, standby=standby
    )
    return begun
