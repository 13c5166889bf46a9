"""The options commands have in common."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.output import OutputFormat

_PACKAGE_LOGGER = logging.getLogger("isthmus")


def is_verbose() -> bool:
    """Whether -v was given: log everything, and show where an unexpected error came from."""
    return _PACKAGE_LOGGER.level == logging.DEBUG


def _be_verbose(given: bool) -> bool:
    if given:
        _PACKAGE_LOGGER.setLevel(logging.DEBUG)
    return given


OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print the result.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        help="The configuration file; else $ISTHMUS_CONFIG, else isthmus.yaml here or above.",
        show_default=False,
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option("-v", "--verbose", callback=_be_verbose, help="Tell on stderr what is being done."),
]
