"""`make demo`: two clusters are started, filled, mirrored, disturbed and compared. Exit code 0 only if all is equal."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import typer
from confluent_kafka import KafkaException

from demo.demonstration import Demonstration
from isthmus.cli.endings import listen_for_sigterm, told
from isthmus.errors import HostError


def main() -> int:
    """Runs the demonstration; whatever ends it, nothing is left running."""
    listen_for_sigterm()
    try:
        with told(), ExitStack() as stack:
            return _demonstrate(Demonstration(stack))
    except typer.Exit as ending:
        return ending.exit_code


def _demonstrate(demonstration: Demonstration) -> int:
    try:
        return demonstration.perform()
    except KafkaException as error:
        raise HostError(
            f"a cluster refused what the demonstration's own clients asked for: {error}",
            hint="The machine may be very busy: end other work and try again.",
        ) from error


if __name__ == "__main__":
    sys.exit(main())
