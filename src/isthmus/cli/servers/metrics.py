"""The options of commands that report metrics while they run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from isthmus.fabric.fabric import Fabric
from isthmus.model.configuration import MetricsSettings

MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve metrics and health over HTTP there, such as 127.0.0.1:9464 (docs/metrics.md).",
    ),
]
MetricsPartitionsOption = Annotated[
    bool, typer.Option("--metrics-partitions", help="Report metrics of single partitions too.")
]
MetricsAnyInterfaceOption = Annotated[
    bool,
    typer.Option("--metrics-any-interface", help="Let --metrics name an address that other hosts reach."),
]


def told_metrics(fabric: Fabric, listen: str | None, *, partitions: bool, any_interface: bool) -> MetricsSettings:
    """Return the settings of the file, overridden by the command line."""
    settings = fabric.configuration.metrics
    return replace(
        settings,
        listen=listen or settings.listen,
        partitions=partitions or settings.partitions,
        # Consent to one address is no consent to another.
        any_interface=any_interface or (settings.any_interface and listen is None),
    )
