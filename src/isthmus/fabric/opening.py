"""A configuration as it is opened: read from its file, with the links that are declared on its clusters."""

from __future__ import annotations

from pathlib import Path

from isthmus import config
from isthmus.kafka.session import ClientSession
from isthmus.memory.declarations import with_declared
from isthmus.model.configuration import Configuration


async def open_configuration(
    configuration: str | Path | Configuration | None, session: ClientSession, *, declared: bool | None
) -> Configuration:
    """The configuration, read if it is not given; see `AsyncFabric.open`."""
    if isinstance(configuration, Configuration):
        # A value is what somebody has made of it: nothing comes in that is not in it, unless it is asked for.
        return await with_declared(configuration, session) if declared else configuration
    read = config.load(None if configuration is None else Path(configuration))
    return read if declared is False else await with_declared(read, session)
