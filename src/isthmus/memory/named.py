"""What verbs take first: an opened configuration, or a link of it by its name."""

from __future__ import annotations

from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link


class Opened:
    """A configuration, whose clusters verbs ask by the clients of a session."""

    def __init__(self, configuration: Configuration, session: ClientSession) -> None:
        self.configuration = configuration
        self.session = session

    def links(self, name: str | None = None) -> tuple[Link, ...]:
        """The link of that name, or all of them.

        :raises ConfigError: There is none of that name.
        """
        return self.configuration.links if name is None else (self.configuration.link(name),)


class NamedLink(Opened):
    """A link of a configuration by its `name`."""

    def __init__(self, configuration: Configuration, session: ClientSession, name: str) -> None:
        super().__init__(configuration, session)
        self.name = name

    @property
    def link(self) -> Link:
        """The link.

        :raises ConfigError: There is none of that name.
        """
        return self.configuration.link(self.name)

    @property
    def target(self) -> Client:
        """The client of its target.

        :raises ConfigError: There is no such link.
        """
        return self.session.client(self.link.target)
